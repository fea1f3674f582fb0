"""The dashboard in a real Chromium: `make test-browser`, apart from `make test`."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from firesteel.testing.backend import TaskScript

BROWSER = "FIRESTEEL_BROWSER"
"""Set by `make test-browser` to the browser's program."""

Do = Callable[[Coroutine[Any, Any, Any]], Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not os.environ.get(BROWSER):
            item.add_marker(pytest.mark.skip(reason="needs Chromium: make test-browser"))


@pytest.fixture
def script() -> TaskScript:
    return TaskScript()


@pytest.fixture
def do() -> Do:
    return asyncio.run
