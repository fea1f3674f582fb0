"""REST in real time: loopback, ports of its own, files under tmp_path."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from firesteel.testing.backend import TaskScript

Do = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def do() -> Do:
    """Runs a coroutine to its end."""
    return asyncio.run


@pytest.fixture
def script() -> TaskScript:
    return TaskScript()
