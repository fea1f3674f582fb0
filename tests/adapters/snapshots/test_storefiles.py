"""Which files one version of a state store consists of."""

import json

import pytest

from firesteel.adapters.spark.streams.snapshots.storefiles import Gone, Lineage, named_files, version_files


def no_lineage(name: str) -> Lineage | None:
    raise AssertionError(f"nobody needs the lineage in {name}")


def test_hdfs_is_the_last_snapshot_and_the_deltas_since() -> None:
    names = [f"{version}.delta" for version in range(1, 9)] + ["3.snapshot", "6.snapshot"]
    assert version_files(names, 8, "", no_lineage) == ("6.snapshot", "7.delta", "8.delta")
    assert version_files(names, 6, "", no_lineage) == ("6.snapshot",)
    assert version_files(names, 5, "", no_lineage) == ("3.snapshot", "4.delta", "5.delta")
    assert version_files(names, 2, "", no_lineage) == ("1.delta", "2.delta")


def test_rocksdb_without_changelog_is_one_snapshot() -> None:
    assert version_files(["3.zip", "4.zip", "5.zip"], 4, "", no_lineage) == ("4.zip",)


def test_rocksdb_with_changelog_is_the_last_snapshot_and_the_changes_since() -> None:
    names = ["2.zip", "2.changelog", "3.changelog", "4.changelog", "4.zip", "5.changelog"]
    assert version_files(names, 5, "", no_lineage) == ("4.zip", "5.changelog")
    assert version_files(names, 3, "", no_lineage) == ("2.zip", "3.changelog")


def test_newer_versions_do_not_count() -> None:
    assert version_files(["1.delta", "2.delta", "3.delta", "3.snapshot"], 2, "", no_lineage) == ("1.delta", "2.delta")


@pytest.mark.parametrize(
    ("names", "version", "missing"),
    [
        ([], 1, "1.*"),
        (["5.delta", "6.delta"], 6, "4.*"),
        (["2.snapshot", "4.delta"], 4, "3.*"),
        (["3.zip"], 4, "4.*"),
    ],
)
def test_what_retention_has_taken_is_named(names: list[str], version: int, missing: str) -> None:
    with pytest.raises(Gone) as gone:
        version_files(names, version, "", no_lineage)
    assert gone.value.path == missing


def test_checksums_of_sparks_own_go_with_their_files() -> None:
    names = ["3_a.zip", "3_a.zip.crc", "4_b.changelog", "4_b.changelog.crc", "4_x.changelog.crc"]
    chosen = version_files(names, 4, "b", lambda _: ((3, "a"),))
    assert chosen == ("3_a.zip", "3_a.zip.crc", "4_b.changelog", "4_b.changelog.crc")


def test_ids_choose_among_files_of_one_version() -> None:
    names = ["1_a.changelog", "1_x.changelog", "2_b.changelog", "2_x.zip", "3_c.changelog", "3_y.changelog"]
    lineages = {"3_c.changelog": ((1, "a"), (2, "b"))}
    assert version_files(names, 3, "c", lineages.get) == ("1_a.changelog", "2_b.changelog", "3_c.changelog")


def test_a_snapshot_with_the_id_needs_no_lineage() -> None:
    assert version_files(["3_c.zip", "3_c.changelog", "2_b.zip"], 3, "c", no_lineage) == ("3_c.zip",)


def test_a_lineage_ends_at_the_newest_snapshot_in_it() -> None:
    names = ["1_a.zip", "2_b.zip", "2_b.changelog", "3_c.changelog"]
    assert version_files(names, 3, "c", lambda _: ((1, "a"), (2, "b"))) == ("2_b.zip", "3_c.changelog")


def test_a_lineage_without_its_snapshot_is_not_whole() -> None:
    with pytest.raises(Gone) as gone:
        version_files(["6_f.changelog", "7_g.changelog"], 7, "g", lambda _: ((6, "f"),))
    assert "snapshot" in gone.value.path


def test_without_a_lineage_all_that_may_count_is_taken() -> None:
    names = ["1_a.zip", "1_x.zip", "2_b.changelog", "2_b.changelog.crc", "3_c.changelog", "4_d.changelog", "notes.txt"]
    chosen = version_files(names, 3, "c", lambda _: None)
    assert chosen == ("1_a.zip", "1_x.zip", "2_b.changelog", "2_b.changelog.crc", "3_c.changelog")


def test_a_file_with_another_id_is_another_file() -> None:
    with pytest.raises(Gone):
        version_files(["3_x.zip", "3_x.changelog"], 3, "c", no_lineage)


def test_a_snapshot_names_its_immutable_files() -> None:
    text = "v1\n" + json.dumps(
        {
            "sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": "1-u.sst", "sizeBytes": 7}],
            "logFiles": [{"localFileName": "2.log", "dfsLogFileName": "2-u.log", "sizeBytes": 8}],
            "numKeys": 2,
        }
    )
    assert named_files(text, json.loads) == {"SSTs/1-u.sst": 7, "logs/2-u.log": 8}
    assert named_files('v1\n{"sstFiles":[],"numKeys":0}', json.loads) == {}
