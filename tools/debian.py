"""Install a package on Debian and Ubuntu, where we may. Standard library only."""

import os
import shutil
import subprocess


def can_install() -> bool:
    """Whether apt is here and we may use it."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install(*packages: str) -> bool:
    """Install packages; whether apt was content. Its output is left on the terminal."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    commands = (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages])
    return all(subprocess.run(command, env=environment, check=False).returncode == 0 for command in commands)
