"""Make the class-data archive with which JVMs of Spark start in half the time, unless there is one for this installation.

A worker makes it by itself, when it has ended, of what its first JVM has loaded; so this runs the example, and waits. Where none is
made in time, on a machine with much else to do, that is said, and all runs without one, only slower.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.jvm.archive import archive_file

ROOT = Path(__file__).parents[1]
TIMEOUT_S, POLL_S = 300, 0.2


def main() -> None:
    archive = file_of(launch.find_installation())
    if archive.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch, "text")
        text.write_text("to be or not to be")
        parameters = ["--param", f"input={text}", "--param", f"output={scratch}/output"]
        command = [f"{Path(sys.executable).parent}/firesteel", "run", str(ROOT / "examples/wordcount.py"), *parameters]
        subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    give_up = time.monotonic() + TIMEOUT_S
    while not archive.exists():
        if time.monotonic() > give_up:
            print(f"no class-data archive was made within {TIMEOUT_S} s, and all takes longer without: {archive}")
            return
        time.sleep(POLL_S)
    print(f"made {archive}")


def file_of(installation: launch.SparkInstallation) -> Path:
    """The archive's file, whether it is there or not."""
    class_path, command = launch.base_class_path(installation), launch.archive_command(installation)
    return archive_file(installation.java, class_path, command)


if __name__ == "__main__":
    main()
