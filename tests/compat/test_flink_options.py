"""The keys of Flink's configuration that the command line knows, beside the options that Flink's own classes declare."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.cli.flinkkeys import KEYS_FILE
from firesteel.model.options import OPTIONS
from tests.compat.conftest import FLINK_JARS

PROGRAM = Path(__file__).with_name("FlinkOptions.java")

HEAD = """\
# Keys that a config.yaml of Flink may hold, for whatever in it means nothing here.
#
# From the ConfigOption declarations in the jars of apache-flink-libraries {version} (Apache License 2.0), without those of
# connectors and formats, which stand in no config.yaml; and from Flink's documentation what no declaration names in full.
# Written by `tests/compat/test_flink_options.py --rewrite`, with the jars of `python -m tools.flink`.
#
# KEY           an option
# KEY.*         everything that begins so
# KEY NEW ...   a key of former versions, with those that stand for it now
"""

NOT_OF_A_CLUSTER: tuple[str, ...] = (
    ".connector.",
    ".formats.",
    ".table.factories.",
    ".table.catalog.",
    ".table.sinks.",
    ".table.module.",
)
NOT_OF_A_CLUSTER += (".table.secret.", ".StreamConfig", "Internal", "LookupJoinHint", "RuntimeConfigOptions")
"""Parts of the names of classes: their keys stand in SQL, in code, or are Flink's own business."""

DOCUMENTED = (
    "containerized.master.env.*",
    "containerized.taskmanager.env.*",
    "events.reporter.*",
    "external-resource.*",
    "flink.hadoop.*",
    "flink.yarn.*",
    "fs.azure.*",
    "fs.gs.*",
    "fs.oss.*",
    "fs.s3a.*",
    "gs.*",
    "job.autoscaler.*",
    "kubernetes.operator.*",
    "metrics.reporter.*",
    "presto.s3.*",
    "python.*",
    "s3.endpoint.region",
    "s3.entropy.key",
    "s3.entropy.length",
    "s3.path-style-access",
    "s3.path.style.access",
    "s3.s5cmd.*",
    "s3.upload.max.concurrent.uploads",
    "s3.upload.min.part.size",
    "sql-client.*",
    "traces.reporter.*",
)
"""Of reporters, external resources, file systems, Flink's Kubernetes operator and what is in jars of their own."""


@pytest.fixture(scope="module")
def declared() -> list[tuple[str, str, str, list[str]]]:
    """Class, key, type and former keys of each option."""
    command = ["java", "-cp", f"{FLINK_JARS}/*", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(name, key, kind, former) for name, key, kind, *former in map(str.split, done.stdout.splitlines())]


def test_the_keys_are_flinks(declared: list[tuple[str, str, str, list[str]]], rewrite: bool) -> None:
    lines = set(DOCUMENTED)
    successors: dict[str, list[str]] = {}
    for name, key, kind, former in declared:
        if any(part in name for part in NOT_OF_A_CLUSTER) or not is_of_a_file(key):
            continue
        lines.update(named(key, kind))
        for old in former:
            successors.setdefault(old, []).append(key)
    for old, new in successors.items():
        if old not in lines:
            lines.add(" ".join((old, *sorted(set(new)))))
    text = HEAD.format(version=Path(FLINK_JARS).name.removeprefix("flink-")) + "\n" + "\n".join(sorted(lines)) + "\n"
    if rewrite:
        KEYS_FILE.write_text(text)
    assert text == KEYS_FILE.read_text()


def test_a_number_alone_means_what_it_means_in_flink(declared: list[tuple[str, str, str, list[str]]]) -> None:
    """Where Flink has a plain number, and we a duration or a size, its unit is Flink's."""
    shared = [(OPTIONS[key], kind) for _, key, kind, _ in declared if key in OPTIONS]
    assert len(shared) > 40
    for option, kind in shared:
        if kind in ("Integer", "Long") and option.kind in ("duration", "memory"):
            assert option.bare_unit, f"{option.key}: {kind} in Flink"


def is_of_a_file(key: str) -> bool:
    """Neither a part of a key, like those of reporters, nor one that Flink sets for itself."""
    return (
        not any(sign in key for sign in "<$#")
        and ("." in key or key in ("external-resources",))
        and not key.startswith(("internal.", "scope.", "filter.", "factory."))
    )


def named(key: str, kind: str) -> Iterator[str]:
    yield key
    if kind == "Map":
        yield f"{key}.*"
