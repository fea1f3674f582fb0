"""Work that `firesteel cluster --hosts` has done on each host: `python -m firesteel.cli.clusters.onhost`, over ssh.

Takes an Order as JSON from standard input; says at once that it is there, and in the end an Answer as JSON. Each is a line
that begins with MARK, so that nothing a login shell prints is taken for it.
"""

import contextlib
import io
import os
import sys
from importlib.metadata import version
from typing import Literal

import msgspec

from firesteel.cli.background import ClusterDirectory
from firesteel.cli.clusters import thishost
from firesteel.cli.exits import BAD_USAGE, FINISHED, UNREACHABLE, CommandError
from firesteel.cli.settings import CONF_DIR_VARIABLE, CONF_FILE
from firesteel.model.options import Configuration, ConfigurationError

MARK = "firesteel-on-host:"
VERSION = version("firesteel")
Verb = Literal["start", "stop", "status"]
Role = Literal["jobmanager", "taskmanager"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Order to one host: start, stop or look for processes of one role."""

    verb: Verb
    role: Role
    host: str
    """Host as the one who orders calls it; hosts may share the directory their records are in."""
    count: int = 1
    configuration: dict[str, str]
    version: str = VERSION
    """Version of firesteel, on both sides the same."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an order: what the same command would have said there, and its exit code."""

    code: int = FINISHED
    out: str = ""
    err: str = ""
    rpc_port: int = 0
    """Port of a master that was started."""


def main() -> int:
    """Exit code 0 when the answer was heard."""
    print(MARK, flush=True)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        answer = _answered(order)
    answer = msgspec.structs.replace(answer, out=out.getvalue(), err=(err.getvalue() + answer.err).strip())
    try:
        print(MARK + msgspec.json.encode(answer).decode(), flush=True)
    except OSError:  # whoever ordered is gone, and would not know what runs here
        if order.verb == "start" and answer.code == FINISHED:
            _answered(msgspec.structs.replace(order, verb="stop"))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing may be written any more, also not at exit
        return UNREACHABLE
    return FINISHED


def _answered(order: Order) -> Answer:
    try:
        config = Configuration(order.configuration)
        directory = ClusterDirectory(config, f"hosts/{order.role}-{order.host}")
        with directory.locked():
            return obey(order, directory, config)
    except ConfigurationError as error:
        return Answer(code=BAD_USAGE, err=f"firesteel there does not know it: {error}")
    except CommandError as error:
        return Answer(code=error.code, err=error.message)


def obey(order: Order, directory: ClusterDirectory, config: Configuration) -> Answer:
    """Do it. Raises CommandError; then nothing is left of a start."""
    if order.version != VERSION:
        text = f"firesteel {VERSION} is installed there, but {order.version} here: install the same on all hosts"
        raise CommandError(text, BAD_USAGE)
    if order.verb == "stop":
        return Answer(code=thishost.stop(directory, config))
    if order.verb == "status":
        if not directory.read():
            raise CommandError(f"no {order.role} runs there", UNREACHABLE)
        return Answer(code=thishost.status(directory))
    directory.prune_logs()
    thishost.check_workers(config, order.count if order.role == "taskmanager" else 0)
    thishost.refuse_second(directory, f"{thishost.STOP_COMMAND} --hosts FILE")
    _keep(order, directory)
    return _started(directory, config, order)


def _started(directory: ClusterDirectory, config: Configuration, order: Order) -> Answer:
    try:
        if order.role == "jobmanager":
            return Answer(rpc_port=thishost.start_master(directory, config, ()))
        thishost.start_workers(directory, config, order.count, ())
        return Answer()
    except BaseException:
        thishost.end_all(directory, config)
        raise


def _keep(order: Order, directory: ClusterDirectory) -> None:
    """The configuration may have secrets: processes read it from a file, which only its owner may."""
    directory.conf.mkdir(mode=0o700, exist_ok=True)
    (directory.conf / CONF_FILE).write_bytes(msgspec.json.encode(order.configuration))
    os.environ[CONF_DIR_VARIABLE] = str(directory.conf)


if __name__ == "__main__":
    sys.exit(main())
