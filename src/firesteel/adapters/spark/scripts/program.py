"""A plain PySpark script, run as the `__main__` of its task process."""

import atexit
import builtins
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.internals import release_pools
from firesteel.adapters.spark.scripts.sessions import note, open_sessions_for_builders
from firesteel.adapters.spark.scripts.threads import end_threads
from firesteel.adapters.spark.scripts.unoffered import way_out
from firesteel.adapters.spark.session.attempt import AttemptSession
from firesteel.adapters.spark.session.relativepaths import ClientPaths
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import Function

_OWN = str(Path(__file__).parents[3]) + os.sep
"""Frames of files below it are ours."""


class ScriptProgram:
    """One run of a script. `describe` makes a failure of an exception, with the line in the user's code."""

    def __init__(
        self,
        function: Function,
        task: wire.RunTask,
        session: AttemptSession,
        paths: ClientPaths,
        describe: Callable[[BaseException], FailureInfo],
    ) -> None:
        self._function, self._task, self._session, self._describe = function, task, session, describe
        self._paths = paths
        self._path = os.path.join(task.code[0], function.entry_point)

    def run(self) -> FailureInfo | None:
        """Run it to its very end: its threads have ended, and what it has registered for its exit was called."""
        if _is_there(self._task.client_directory):
            self._paths.install()
        sys.argv = [self._function.entry_point, *self._function.arguments]
        open_sessions_for_builders(self._session, for_script=True)
        failure: FailureInfo | None
        try:
            failure = self._execute()
        except SystemExit as error:
            failure = self._exited(error)
        except BaseException as error:  # this adapter's edge: whatever it is becomes data
            failure = self._raised(error)
        end_threads(release_pools)
        atexit._run_exitfuncs()
        return failure

    def _execute(self) -> FailureInfo | None:
        main = ModuleType("__main__")
        vars(main).update(__file__=self._path, __builtins__=builtins)
        sys.modules["__main__"] = main
        exec(compile(Path(self._path).read_bytes(), self._path, "exec", dont_inherit=True), vars(main))
        return self._of_pipelines(main)

    def _of_pipelines(self, main: ModuleType) -> FailureInfo | None:
        """A file that only imports its pipeline was meant to run that one."""
        from firesteel.pipeline.authoring import Pipeline

        found = next((name for name, value in vars(main).items() if isinstance(value, Pipeline)), None)
        if found is None:
            return None
        file = self._function.entry_point
        message = f"{file} has no import of firesteel, so it ran as a plain script, and its pipeline {found!r} did not"
        return FailureInfo(
            kind=FailureKind.NON_RECOVERABLE, message=f"{message}: run {file}:{found} instead", exit_code=2
        )

    def _exited(self, error: SystemExit) -> FailureInfo | None:
        """The failure that a sys.exit() is: a number is the exit code, another thing is printed."""
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        code = (code or 0) & 0xFF
        if not code:
            return None
        message = f"the script ended with exit code {code}"
        return msgspec.structs.replace(self._describe(error), kind=FailureKind.USER, message=message, exit_code=code)

    def _raised(self, error: BaseException) -> FailureInfo:
        self._print(error)
        failure = self._describe(error)
        code = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        return msgspec.structs.replace(failure, message=way_out(error) or failure.message, exit_code=code)

    def _print(self, error: BaseException) -> None:
        """The traceback as Python prints it, without our frames, and with the user's files as he knows them."""
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename.startswith(_OWN):
            place = place.tb_next
        if sys.excepthook is not sys.__excepthook__:  # the script has its own way
            sys.excepthook(type(error), error, place)
            return
        printed = traceback.TracebackException(type(error), error, place)
        link: traceback.TracebackException | None = printed
        while link is not None:
            for frame in link.stack:
                _ = frame.line  # read while its file is found
                frame.filename = frame.filename.removeprefix(os.path.join(self._task.code[0], ""))
            link.stack[:] = [frame for frame in link.stack if not frame.filename.startswith(_OWN)]
            link = link.__cause__ or link.__context__
        print("".join(printed.format()), end="", file=sys.stderr)


def _is_there(client_directory: str) -> bool:
    """Go to where the client is, if we can: relative paths start where a script's author expects them to."""
    try:
        os.chdir(client_directory)
        return True
    except OSError as error:
        why = error.strerror or str(error)
        note(
            f"{client_directory}, where this was submitted, can't be used by the worker ({why}): relative paths start in"
            f" {os.getcwd()}, which is removed when the script has ended, and those given to Spark where that was started"
        )
        return False
