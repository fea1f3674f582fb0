"""One order to one host, by the system's own ssh: keys, agents, aliases and jumps are configured where they always are."""

import shlex
import subprocess
import sys

import msgspec

from firesteel.cli.background import start_limit_s, stop_limit_s
from firesteel.cli.clusters.onhost import MARK, Answer, Order
from firesteel.cli.exits import BAD_USAGE, UNREACHABLE, CommandError
from firesteel.model import options
from firesteel.model.options import Configuration

CONNECT_S = 10
"""Time to reach a host, and to be let in."""
SILENCE_S = 15
"""A host that does not answer ssh for this long is given up."""
SPARE_S = 30.0
"""Time for what an order needs beside starting and ending processes."""
SSH_FAILED, NOT_FOUND = 255, 127
"""Exit codes: of ssh itself, and of a shell that has not found the program."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an order."""

    order: Order
    answer: Answer
    is_open: bool = False
    """Whether the order may have been carried out without our hearing of it."""


class Ssh(msgspec.Struct, frozen=True, kw_only=True):
    """The way hosts are reached."""

    options: list[str]
    python: str

    @staticmethod
    def of(config: Configuration) -> "Ssh":
        """Raises CommandError."""
        try:
            words = shlex.split(config.get_option(options.SSH_OPTIONS))
        except ValueError as error:
            raise CommandError(f"{options.SSH_OPTIONS.key}: {error}", BAD_USAGE) from None
        return Ssh(options=words, python=config.get_option(options.REMOTE_PYTHON) or sys.executable)

    def send(self, order: Order, config: Configuration) -> Outcome:
        """Have it done there; whatever goes wrong is in the outcome."""
        limit_s = CONNECT_S + SPARE_S + order.count * max(start_limit_s(config), stop_limit_s(config))
        try:
            done = subprocess.run(
                self.command(order.host),
                input=msgspec.json.encode(order),
                capture_output=True,
                timeout=limit_s,
                check=False,
            )
        except FileNotFoundError:
            return _failed(order, "there is no ssh here: install OpenSSH's client")
        except subprocess.TimeoutExpired:
            return _failed(order, f"it has not answered within {limit_s:g} s; see its logs", is_open=True)
        marked = [line.removeprefix(MARK) for line in _lines(done.stdout) if line.startswith(MARK)]
        if len(marked) > 1:
            return Outcome(order=order, answer=msgspec.json.decode(marked[-1], type=Answer))
        return _failed(order, self._problem(done, order.host), is_open=bool(marked))

    def command(self, host: str) -> list[str]:
        """The user's own options come first: ssh takes the first word on each."""
        ours = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_S,
            "ControlMaster": "no",  # a master of connections would keep our pipes open
            "ServerAliveInterval": SILENCE_S // 3,
            "ServerAliveCountMax": 3,
        }
        settings = [word for name, value in ours.items() for word in ("-o", f"{name}={value}")]
        program = shlex.join([self.python, "-m", "firesteel.cli.clusters.onhost"])
        return ["ssh", "-T", *self.options, *settings, "--", host, program]

    def _problem(self, done: "subprocess.CompletedProcess[bytes]", host: str) -> str:
        said = _lines(done.stderr)
        last = said[-1] if said else f"exit code {done.returncode}"
        if "No module named" in last and "firesteel" in last:
            return f"firesteel is not installed for {self.python} there: install it, or set {options.REMOTE_PYTHON.key}"
        if done.returncode == NOT_FOUND:
            return f"there is no {self.python} there: install firesteel with it, or set {options.REMOTE_PYTHON.key}"
        if done.returncode != SSH_FAILED:
            return f"{self.python} has failed there: {last}"
        if "Permission denied" in last:
            return f"it refuses your key: see that `ssh {host} true` needs no password (ssh-copy-id, {options.SSH_OPTIONS.key})"
        if "Host key verification failed" in last:
            return f"its host key is not the known one: log in once by `ssh {host}`, and compare it"
        return f"it can't be reached: {last}; see that `ssh {host} true` works"


def _failed(order: Order, problem: str, *, is_open: bool = False) -> Outcome:
    return Outcome(order=order, answer=Answer(code=UNREACHABLE, err=problem), is_open=is_open)


def _lines(output: bytes) -> list[str]:
    return [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
