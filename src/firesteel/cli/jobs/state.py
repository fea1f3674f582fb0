"""`firesteel state`: what streaming queries keep."""

import json
from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, CommandError
from firesteel.cli.jobs.manage import asked, cluster_options, found_id
from firesteel.cli.settings import absolute, pairs
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.streams import STATE_ROWS_MAX, QueryState, StateQuestion


@click.command()
@click.argument("names", nargs=-1, metavar="[JOB] [VERTEX]")
@click.option("--savepoint", "-s", default="", metavar="PATH", help="Of a savepoint, instead of a job.")
@click.option("--key", "-k", "keys", multiple=True, metavar="COLUMN=VALUE", help="Only rows whose key has that value.")
@click.option("--operator", type=click.IntRange(min=0), default=0, help="Number of the stateful operator.")
@click.option("--store", default="", metavar="NAME", help="left or right of a join; a variable of transformWithState.")
@click.option("--limit", type=click.IntRange(1, STATE_ROWS_MAX), default=100, help="At most so many rows.")
@cluster_options
def state(names: tuple[str, ...], savepoint: str, keys: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Print what the query of VERTEX (the uid of its sink) keeps, as of its last committed batch: a JSON object a row.

    Of JOB, which runs on undisturbed, or of a savepoint, where VERTEX may be left out if it has one query.
    """
    question = StateQuestion(
        keys=pairs(keys, "--key"), operator=given.pop("operator"), store=given.pop("store"), limit=given.pop("limit")
    )
    if len(names) > (1 if savepoint else 2) or not (savepoint or names):
        raise CommandError(
            "give a job and a vertex, or --savepoint PATH and, if it has several queries, a vertex", BAD_USAGE
        )

    async def read(client: HttpClusterClient) -> QueryState:
        if savepoint:
            return await client.read_savepoint_state(absolute(savepoint), names[0] if names else "", question)
        job_id = await found_id(client, names[0])
        return await client.read_state(
            job_id, names[1] if len(names) == 2 else await _only_query(client, job_id), question
        )

    found = asked(read, **given)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return FINISHED
    click.echo(_heading(found, question), err=True)
    for row in found.rows:
        click.echo(json.dumps(row, ensure_ascii=False))
    if not found.is_complete:
        click.echo(f"there are more than these {len(found.rows)}: --limit says how many are shown", err=True)
    return FINISHED


async def _only_query(client: HttpClusterClient, job_id: JobID) -> str:
    view = await client.request_job(job_id)
    uids = {query.uid for vertex in view.vertices for each in vertex.progress for query in each.queries}
    if view.status.is_globally_terminal or view.job_type is JobType.BATCH:
        what = view.status.value if view.status.is_globally_terminal else "a batch job"
        raise CommandError(f"job {job_id} is {what}: only the queries of a running stream have state", BAD_USAGE)
    if len(uids) != 1:
        raise CommandError(f"say which of its queries: {', '.join(sorted(uids)) or 'none runs yet'}", BAD_USAGE)
    return uids.pop()


def _heading(found: QueryState, question: StateQuestion) -> str:
    operators = ", ".join(
        f"{each.number} {each.name}" + (f" ({', '.join(each.stores)})" if each.stores else "")
        for each in found.operators
    )
    return f"{found.uid} after batch {found.batch_id}: operators {operators}; rows of {question.operator}"
