"""`firesteel compare`: whether two streaming jobs have written the same."""

import json
from typing import Any

import click
import msgspec

from firesteel.cli.exits import BAD_USAGE, FINISHED, JOB_FAILED, CommandError
from firesteel.cli.jobs.manage import asked, cluster_options, found_id
from firesteel.cli.settings import load_configuration, storage_settings, time_ms
from firesteel.client.branching import BranchRefused
from firesteel.client.comparing import Comparing, QueryComparison
from firesteel.client.comparison import NoSuchKey, Sample
from firesteel.client.http import HttpClusterClient
from firesteel.client.outputrows import NotReadable

DIFFERENT = JOB_FAILED


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--key", "-k", "keys", multiple=True, metavar="COLUMN", help="Compare by this column, or these.")
@click.option(
    "--query",
    "uid",
    default="",
    metavar="UID",
    help="Only the query of the sink with this uid, or UID/NAME: one of its outputs.",
)
@click.option(
    "--wait",
    default="30 s",
    metavar="TIME",
    help='Wait so many seconds, or so long ("2 min"), until both have read the same; 30 s.',
)
@cluster_options
def compare(first: str, second: str, keys: tuple[str, ...], uid: str, wait: str, as_json: bool, **given: Any) -> int:
    """Say whether the jobs FIRST and SECOND, as a stream and a branch of it, have written the same rows to their files, up to
    where both have read the same. Exit codes: 0 the same, 1 different.

    With --key rows are compared key by key, else as a multiset.
    """
    wait_s = time_ms("--wait", wait) / 1_000
    storage = storage_settings(load_configuration(given["definitions"]))

    async def work(client: HttpClusterClient) -> list[QueryComparison]:
        jobs = [await found_id(client, each) for each in (first, second)]
        return await Comparing(client, *jobs, storage=storage).compare(keys, uid, wait_s)

    try:
        found = asked(work, **given)
    except (BranchRefused, NoSuchKey, NotReadable) as error:
        raise CommandError(str(error), BAD_USAGE) from None
    if as_json:
        click.echo(msgspec.json.encode(found))
    for each in () if as_json else found:
        click.echo("\n".join(lines_of(each, by_key=bool(keys))))
    return FINISHED if all(is_same(each, by_key=bool(keys)) for each in found) else DIFFERENT


def is_same(found: QueryComparison, *, by_key: bool) -> bool:
    """By key, what only one has may be on its way to the other, as long as these have not read the same."""
    return found.rows.is_same or (by_key and not found.is_settled and not found.rows.different)


def lines_of(found: QueryComparison, *, by_key: bool) -> list[str]:
    """What was found, for a person."""
    rows, what = found.rows, "keys" if by_key else "rows"
    if found.is_settled:
        where = f"up to batch {found.first_batch} of the first and {found.second_batch} of the second, which had read the same"
    else:
        where = "and at no batch that is still known had both read the same, so what only one has may be on its way"
    since = f" (since batch {found.after}, where they parted)" if found.after >= 0 else ""
    parts = [f"{rows.equal:,} {what} equal"]
    parts += [f"{rows.different:,} in both with other rows"] if by_key else []
    parts += [f"{rows.only_first:,} only in the first", f"{rows.only_second:,} only in the second"]
    return [f"{found.uid}: {_verdict(found, by_key)}: {', '.join(parts)}; {where}{since}", *map(_line, rows.samples)]


def _verdict(found: QueryComparison, by_key: bool) -> str:
    if found.rows.is_same:
        return "the same"
    if is_same(found, by_key=by_key):
        return "no difference yet"
    return "different" if found.is_settled or found.rows.different else "not settled"


def _line(sample: Sample) -> str:
    key = f"{_json(sample.key)}: " if sample.key else ""
    sides = (("first", sample.first), ("second", sample.second))
    return "  " + key + " | ".join(f"{name} {' '.join(map(_json, rows)) or 'none'}" for name, rows in sides)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
