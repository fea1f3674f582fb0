"""A sink of the user's own that is called in a thread of a pipeline's sink."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.session.context import current_attempt
from firesteel.adapters.spark.sinks.twophase import write_two_phase


class Slow:
    """A sink that writes until it is told to end."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def write(self, df: Any, context: Any) -> str:
        self.begun.set()
        assert self.may_end.wait(60)
        raise ValueError("nothing was written")

    def commit(self, committables: list[Any]) -> None:
        raise AssertionError("nothing is committed")

    def abort(self, committables: list[Any]) -> None: ...


def attempt() -> Any:
    def nothing(where: str) -> None: ...

    return SimpleNamespace(
        runtime=SimpleNamespace(), function=SimpleNamespace(name="result"), allow_write=nothing, withdraw_write=nothing
    )


def test_a_function_that_returns_meanwhile_is_refused() -> None:
    sink, errors = Slow(), list[Exception]()

    def work() -> None:
        try:
            write_two_phase(None, sink)
        except ValueError as error:
            errors.append(error)

    def returns_too_soon() -> None:
        with current_attempt.calling(attempt()):
            thread.start()
            assert sink.begun.wait(60)

    thread = threading.Thread(target=work, daemon=True)
    with pytest.raises(SinkRefused, match="result has returned while threads of it still write"):
        returns_too_soon()
    sink.may_end.set()
    thread.join(60)
    assert [str(error) for error in errors] == ["nothing was written"]
