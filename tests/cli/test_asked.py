"""What commands that ask a cluster end with when it says no."""

import pytest

from firesteel.cli.exits import BAD_USAGE, UNREACHABLE, CommandError
from firesteel.cli.jobs.manage import asked
from firesteel.client.http import HttpClusterClient
from firesteel.runtime.client import StorageFull, TooManyJobs


@pytest.mark.parametrize(
    ("error", "code"), [(TooManyJobs("as many as may run"), BAD_USAGE), (StorageFull("no room"), UNREACHABLE)]
)
def test_a_cluster_that_is_full_is_no_bug(error: Exception, code: int) -> None:
    """`retry` submits, too."""

    async def work(client: HttpClusterClient) -> None:
        raise error

    with pytest.raises(CommandError, match=str(error)) as told:
        asked(work, "127.0.0.1:1", ())
    assert told.value.code == code
