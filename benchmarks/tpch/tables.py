"""Tables for the queries, made once."""

import subprocess
import sys
from pathlib import Path

GENERATOR = Path(sys.executable).parent / "tpchgen-cli"
TIMEOUT_S = 600


def make_tables(folder: Path, scale: float) -> Path:
    """The eight tables as Parquet in `folder`, which is left alone when it has them; returns it."""
    done = folder / "_complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(GENERATOR), "parquet", "--quiet", "-s", str(scale), "--output-dir", str(folder)]
        subprocess.run(command, check=True, timeout=TIMEOUT_S)
        done.touch()
    return folder


def parameters_of(name: str, tables: Path, scale: float) -> dict[str, str]:
    """The job parameters of a query, but for its output."""
    fraction = {"fraction": str(0.0001 / scale)} if name == "q11" else {}
    return {"tables": str(tables), **fraction}
