"""`firesteel cluster status` and `stop`, of kept clusters."""

import asyncio

import click

from firesteel.cli.background import HELPERS_LIMIT_S, ClusterDirectory, Recorded, end_helpers
from firesteel.cli.exits import FINISHED, JOB_FAILED
from firesteel.cli.following.follow import duration
from firesteel.cli.keeping import words
from firesteel.cli.keeping.places import all_places, connect, locked
from firesteel.cli.keeping.visit import end
from firesteel.model.options import Configuration

LOOK_LIMIT_S = 5.0


def there_are(configuration: Configuration) -> bool:
    """Whether any kept cluster of this user runs, or has left something."""
    return any(place.read() for place in all_places(configuration))


def show(configuration: Configuration) -> bool:
    """Say which there are; whether there are any."""
    found = [(place, record) for place in all_places(configuration) for record in place.read()]
    for place, record in found:
        click.echo(f"{_named(record)} {asyncio.run(_state(place, record))}, log: {record.log}")
    return bool(found)


def stop(configuration: Configuration) -> int:
    """End all of them, also those that are used, and remove what they have left."""
    return asyncio.run(_stop(configuration))


async def _stop(configuration: Configuration) -> int:
    code = FINISHED
    if not all_places(configuration):
        return code
    async with locked(configuration):
        for place in all_places(configuration):
            records = place.read()
            was_killed = await end(place, configuration)
            await asyncio.to_thread(end_helpers, place, HELPERS_LIMIT_S)
            if was_killed:
                code = JOB_FAILED
                click.echo(f"{_named(records[0])} did not end by itself and was killed", err=True)
    return code


async def _state(place: ClusterDirectory, record: Recorded) -> str:
    if record.process() is None:
        return "is gone"
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            reader, writer = await connect(place.path)
            await words.say(writer, words.Look())
            state = await words.hear(reader, words.State)
            writer.close()
    except (OSError, TimeoutError):
        return "runs, and does not answer"
    return "is used" if state.is_used else f"is idle, and ends in {duration(round(state.left_s * 1000))}"


def _named(record: Recorded) -> str:
    return f"{record.role} for {record.where} (process {record.pid})"
