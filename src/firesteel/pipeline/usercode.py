"""The edge to the user's code at build time: whatever it raises becomes an InvalidPipeline with the user's line."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from firesteel.pipeline.errors import InvalidPipeline

T = TypeVar("T")


def run_user_code(run: Callable[[], T], root: Path, file: Path) -> T:
    """Result of `run`. `root` is the directory of the user's modules, `file` the one to blame by default."""
    try:
        return run()
    except InvalidPipeline as error:
        if error.file:
            raise
        where, line = _user_line(error, root, file)
        raise InvalidPipeline(error.message, file=where, line=line) from None
    except SyntaxError as error:
        place = error.filename or os.fspath(file)
        raise InvalidPipeline(f"syntax error: {error.msg}", file=place, line=error.lineno or 1) from None
    except SystemExit as error:
        hint = "put that under if __name__ == '__main__'"
        problem = f"the file calls sys.exit({error.code!r}) when it is loaded: {hint}"
        raise _invalid(problem, error, root, file) from None
    except Exception as error:
        text = str(error).strip()
        problem = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise _invalid(f"loading the file raised {problem}", error, root, file) from None


def pickled(dump: Callable[[], bytes], names: str) -> bytes:
    """Bytes that `dump` returns; it runs the `__reduce__` of the user's objects."""
    try:
        return dump()
    except Exception as error:
        raise InvalidPipeline(
            f"can't pickle {names}: {error}; what a function refers to must be picklable, and sessions and"
            " DataFrames are not",
            trace="".join(traceback.format_exception(error)),
        ) from None


def is_below(file: str, root: Path) -> bool:
    """Whether a file is the user's own, below `root`, and not installed there."""
    return file.startswith(os.path.join(root, "")) and f"{os.sep}site-packages{os.sep}" not in file


def _invalid(problem: str, error: BaseException, root: Path, file: Path) -> InvalidPipeline:
    where, line = _user_line(error, root, file)
    return InvalidPipeline(problem, file=where, line=line, trace=_user_trace(error))


def _user_line(error: BaseException, root: Path, file: Path) -> tuple[str, int]:
    """The innermost frame that is in the user's directory."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_below(frame.filename, root)]
    return (frames[-1].filename, frames[-1].lineno or 1) if frames else (os.fspath(file), 1)


def _user_trace(error: BaseException) -> str:
    """The traceback without the frames of loading."""
    own = (os.path.dirname(__file__), "<frozen importlib")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(own)]
    return "".join(traceback.format_list(frames) + traceback.format_exception_only(error))
