"""A server's JVM that never answers. What is started here is no JVM."""

import asyncio
import itertools
from pathlib import Path

from firesteel.adapters.spark.server import ServerSpec, SparkServer


def test_a_jvm_that_does_not_answer_in_time_is_ended_and_told_for_what_it_is(tmp_path: Path) -> None:
    async def story() -> str:
        spec = ServerSpec(
            make_command=lambda flags: ["sleep", "600"],
            archive=None,
            logs=tmp_path,
            start_timeout_seconds=0.05,
            ephemeral=None,
            numbers=itertools.count(1),
        )
        server = SparkServer(spec)
        server.start()
        try:
            return (await asyncio.shield(server.death())).message
        finally:
            await server.close()

    assert asyncio.run(story()).startswith(
        "the Spark backend did not answer within 0.05 s (taskmanager.spark.start-timeout)"
    )
