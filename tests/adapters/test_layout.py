"""The layout of a stored result: what its readers want of it, and which of them."""

from typing import Any

import firesteel as fs
from firesteel.adapters.spark.exchange.layout import WHOLE, Layout, layout_of
from firesteel.model.ids import JobID
from firesteel.pipeline.distributions import Distribution
from firesteel.pipeline.graph import build_job_graph


def words(spark: Any) -> Any:
    return spark.range(1)


def counts(words: Any) -> Any:
    return words


def out(counts: Any) -> None:
    pass


def layout(parallelism: int, distribution: Distribution) -> Layout | None:
    """Of the result of `words`."""
    pipeline = fs.Pipeline("words")
    pipeline.source(words)
    pipeline.transform(parallelism=parallelism, inputs={"words": distribution})(counts)
    pipeline.sink(idempotent=True)(out)
    graph = build_job_graph(pipeline, job_id=JobID("0" * 32))
    (dataset,) = (each.id for each in graph.datasets if each.name == "words")
    return layout_of(graph, dataset)


def test_a_layout_by_keys_names_who_wants_it() -> None:
    found = layout(2, fs.hash_by("n"))
    assert found is not None
    assert (found.subpartitions, found.keys) == (2, ("n",))
    assert found.shown("n").startswith("hash_by('n') of counts (")
    assert "test_layout.py:" in found.shown("n")
    assert layout(2, fs.rebalance()) == Layout(2)
    assert layout(2, fs.broadcast()) == WHOLE
