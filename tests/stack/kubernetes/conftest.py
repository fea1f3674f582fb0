"""One API server for the tests of a module that do not stop it; each has a cluster id of its own."""

from collections.abc import Iterator

import pytest

from tests.stack.kubernetes.apiserver import RealApiServer, real_api_server


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    with real_api_server(tmp_path_factory.mktemp("kubernetes") / "all") as made:
        yield made
