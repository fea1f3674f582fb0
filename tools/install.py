"""Make the virtual environment and install the pinned requirements into it: `make install`.

Runs on a bare Python, so it imports only the standard library. It does nothing when
the environment was made from the same requirements by the same Python.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import debian

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / os.environ.get("FIRESTEEL_VENV", ".venv")
STAMP = VENV / "firesteel-installed"
PYTHON_MIN = (3, 11)
PROFILES = ("runtime", "dev")
"""Each holds the ones before it."""


def main() -> int:
    """Exit code 0 when the environment stands, 1 with one sentence on what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="?", choices=PROFILES, default="runtime")
    profile = parser.parse_args().profile
    if sys.version_info < PYTHON_MIN:
        return refuse(
            f"firesteel needs Python 3.11 or newer and this is {sys.version.split()[0]}: "
            "name a newer one with `make PYTHON=python3.11 ...`."
        )
    if is_current(profile):
        return 0
    if not has_ensurepip():
        return refuse(
            f"This Python can't make a virtual environment: install {venv_package()} (Debian, Ubuntu) or ensurepip."
        )
    try:
        install(profile)
    except subprocess.CalledProcessError as error:
        return refuse(f"Installing stopped at: {' '.join(map(str, error.cmd))} (its own words are above).")
    return 0


def is_current(profile: str) -> bool:
    """Whether the environment already holds this profile, or a larger one, of today's requirements."""
    stamp = STAMP.read_text() if STAMP.exists() else ""
    return any(stamp == digest(wider) for wider in PROFILES[PROFILES.index(profile) :])


def digest(profile: str) -> str:
    """Names all that an installed environment depends on."""
    import tomllib  # not in the Pythons that main() refuses

    parts = [profile, sys.version, str(VENV)]
    files = [ROOT / "requirements" / f"{name}.txt" for name in ("build", profile)]
    parts += [file.read_text() for file in files]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts += [repr(project[table]) for table in ("build-system", "project")]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def install(profile: str) -> None:
    """Build the environment anew. Raises CalledProcessError when a step fails."""
    print(f"Installing firesteel ({profile}) into {VENV.name} ...", flush=True)
    make_environment()
    STAMP.unlink(missing_ok=True)
    # The build tools come first and are pinned too: pyspark is published as source only.
    for name in ("build", profile):
        pip("install", "--no-deps", "--no-build-isolation", "--require-hashes", "-r", f"requirements/{name}.txt")
    pip("install", "--no-deps", "--no-build-isolation", "-e", ".")
    STAMP.write_text(digest(profile))


def has_ensurepip() -> bool:
    """Whether Python can make an environment with pip in it; Debian packs that apart, and it is installed if we may."""
    if importlib.util.find_spec("ensurepip") is None and debian.can_install():
        print(f"Installing {venv_package()} ...", flush=True)
        debian.install(venv_package())
        importlib.invalidate_caches()
    return importlib.util.find_spec("ensurepip") is not None


def venv_package() -> str:
    """The Debian package that this Python's `venv` needs."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}-venv"


def make_environment() -> None:
    """An empty environment of this Python; one that stands is kept, so that pip changes only what differs."""
    python = VENV / "bin" / "python"
    if python.exists() and runs_same_python(python):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    run(sys.executable, "-m", "venv", str(VENV))


def runs_same_python(python: Path) -> bool:
    """Whether that interpreter starts, has pip, and is of this version."""
    question = "import pip, sys; print(sys.version)"
    answer = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and answer.stdout.strip() == sys.version


def pip(*arguments: str) -> None:
    """Call the environment's own pip, quietly, without a look for a newer pip."""
    run(str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", *arguments)


def run(*command: str) -> None:
    """Run in the project's root; raises CalledProcessError."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def refuse(sentence: str) -> int:
    """Say it and give the exit code."""
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
