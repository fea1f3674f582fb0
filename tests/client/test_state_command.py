"""`firesteel state` against a cluster on the network."""

import json

import msgspec

from firesteel.model.jobgraph import JobType
from firesteel.model.streams import QueryProgress, QueryState, StateOperator
from firesteel.testing.backend import TaskScript
from tests.cli.conftest import command
from tests.client.conftest import Served
from tests.rest.cluster import graph

__all__ = ["command"]

STREAM = graph("lines -> counts", "stream", job_type=JobType.STREAMING)
ROW = {"key": {"k": "ä"}, "value": {"count": 3}, "partition_id": 0}
STATE = QueryState(
    uid="counts",
    batch_id=7,
    operators=(StateOperator(number=0, name="symmetricHashJoin", stores=("left", "right"), partitions=2),),
    rows=(ROW,),
    is_complete=False,
)


def test_state_from_the_command_line(command, served: Served, script: TaskScript) -> None:
    script.state, script.queries = STATE, (QueryProgress(uid="counts", batch_id=7),)
    served.call(script.hold, "lines")
    served.do(served.rest.submit(STREAM))
    served.until(STREAM.job_id, lambda view: any(vertex.progress for vertex in view.vertices))
    master = ("--master", served.address)
    code, out, err = command("state", STREAM.job_id[:8], "counts", "--key", "k=ä", "--store", "left", *master)
    assert (code, json.loads(out)) == (0, ROW)
    assert "counts after batch 7: operators 0 symmetricHashJoin (left, right); rows of 0" in err
    assert "there are more than these 1" in err
    assert script.state_orders[-1].question.keys == {"k": "ä"}

    code, out, _ = command("state", STREAM.job_id, "--json", *master)
    assert (code, msgspec.json.decode(out, type=QueryState)) == (0, STATE)
    assert script.state_orders[-1].uid == "counts", "its only query"
    code, out, _ = command("state", "--savepoint", "/saved/one", *master)
    assert (code, json.loads(out)) == (0, ROW)
    assert (script.state_orders[-1].savepoint, script.state_orders[-1].uid) == ("/saved/one", "")

    for arguments, words in (
        ((), "give a job and a vertex, or --savepoint PATH"),
        ((STREAM.job_id, "a", "b"), "give a job and a vertex"),
        ((STREAM.job_id, "nobody"), "has no query, vertex or function 'nobody'"),
        ((STREAM.job_id, "counts", "--key", "k"), "write --key key=value"),
    ):
        code, _, err = command("state", *arguments, *master)
        assert code == 2
        assert words in err
