"""Jobs that write one target at the same time: the later commit is there whole, and both are told."""

from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.storage import local, rivals, sinks
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.model.ids import JobVertexID
from firesteel.model.tasks import Committed, SinkCommit

ANN, BOB = "a" * 32, "b" * 32


def staged(root: Path, job: str, mode: str = "overwrite", place: int = 0) -> SinkCommit:
    staging = root / STAGING_NAME / job / "0-0" / str(place)
    local.make_directory(staging.parent)
    rivals.write_note(local.TREE, str(root / "out"), str(staging))
    staging.mkdir()
    (staging / f"part-0-{job}.parquet").write_text(job)
    return SinkCommit(
        commit_id=f"{job[:30]}{place:02d}",
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=mode,
        target=str(root / "out"),
        staging=str(staging),
        files=(f"part-0-{job}.parquet",),
    )


LEFT = "this leaves that as it is: none of its own rows are there"


def rows(root: Path) -> list[str]:
    return sorted(path.read_text() for path in (root / "out").glob("*.parquet"))


def test_the_later_wins_whole_and_both_are_told(tmp_path: Path) -> None:
    first, second = staged(tmp_path, ANN), staged(tmp_path, BOB)
    assert sinks.commit_sink(first).note == f"job {BOB} is writing {tmp_path / 'out'} too, and comes later"
    assert rows(tmp_path) == [ANN]
    told = sinks.commit_sink(second).note
    assert (
        told
        == f"job {ANN} has committed to {tmp_path / 'out'} while this job ran, and this replaces what it wrote of that"
    )
    assert rows(tmp_path) == [BOB]
    assert not (tmp_path / STAGING_NAME).exists()


def test_what_is_added_is_told_and_kept(tmp_path: Path) -> None:
    first, second = staged(tmp_path, ANN), staged(tmp_path, BOB, "append")
    sinks.commit_sink(first)
    assert "and this adds to that" in sinks.commit_sink(second).note
    assert rows(tmp_path) == [ANN, BOB]


def test_what_ignore_leaves_as_it_is_is_told(tmp_path: Path) -> None:
    """The other job came first, after this one had looked."""
    first, second = staged(tmp_path, ANN), staged(tmp_path, BOB, "ignore")
    sinks.commit_sink(first)
    done = sinks.commit_sink(second)
    assert done.ignored
    assert done.note == f"job {ANN} has committed to {tmp_path / 'out'} while this job ran, and {LEFT}"
    assert rows(tmp_path) == [ANN]


def test_what_ignore_has_found_of_others_is_told(tmp_path: Path) -> None:
    """What is there is no job's; another job is about to write there."""
    first, second = staged(tmp_path, ANN, "ignore"), staged(tmp_path, BOB)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.parquet").write_text("x")
    after = f"job {BOB} is writing {tmp_path / 'out'} too, and comes later"
    for told in (after, after):  # a worker carried it out, and died before it could say so
        done = sinks.commit_sink(first)
        assert done == Committed(f"{tmp_path / 'out'} was written while this job ran, and {LEFT}; {told}", ignored=True)
    assert rows(tmp_path) == ["x"]
    sinks.commit_sink(second)


@pytest.mark.parametrize(
    ("jobs", "before", "after"),
    [
        ([ANN], f"job {ANN} has committed", f"job {ANN} is writing /out too, and comes later"),
        ([ANN, BOB], f"job {ANN} and job {BOB} have committed", f"job {ANN} and job {BOB} are writing /out too, and come later"),
        ([ANN, "another job", BOB, "c" * 32, "d" * 32],
         f"job {ANN}, another job, job {BOB} and 2 more have committed", "and 2 more are writing /out too, and come later"),
    ],
)  # fmt: skip
def test_several_others_are_told_in_the_plural(tmp_path: Path, jobs: list[str], before: str, after: str) -> None:
    commit = staged(tmp_path, "e" * 32)
    they = "it" if len(jobs) == 1 else "they"
    replaces = f"to /out while this job ran, and this replaces what {they} wrote of that"
    assert rivals.sentence(commit, "/out", jobs, []) == f"{before} {replaces}"
    assert rivals.sentence(commit, "/out", [], jobs).endswith(after)


def test_one_after_another_nobody_is_told(tmp_path: Path) -> None:
    for job in (ANN, BOB):
        assert sinks.commit_sink(staged(tmp_path, job)) == Committed()
    assert sinks.commit_sink(staged(tmp_path, ANN, "append")) == Committed()


def test_two_sinks_of_one_job_are_no_rivals(tmp_path: Path) -> None:
    both = [staged(tmp_path, ANN, "append", place) for place in (0, 1)]
    assert [sinks.commit_sink(each).note for each in both] == ["", ""]


def test_other_targets_beside_it_do_not_matter(tmp_path: Path) -> None:
    first, other = staged(tmp_path, ANN), staged(tmp_path, BOB)
    rivals.write_note(local.TREE, str(tmp_path / "elsewhere"), other.staging)
    assert sinks.commit_sink(first).note == ""
    sinks.remove_location(other.staging)
    assert not (tmp_path / STAGING_NAME).exists()


def test_a_commit_that_was_replaced_is_done(tmp_path: Path) -> None:
    """A worker carried it out and died before it could say so; another job's commit came before the repetition."""
    first, second, third = (staged(tmp_path, job) for job in (ANN, BOB, "c" * 32))
    for commit in (first, second, third):
        sinks.commit_sink(commit)
    for commit in (first, second):
        sinks.commit_sink(commit)
        assert rows(tmp_path) == ["c" * 32]


def test_a_commit_that_was_replaced_is_done_also_while_what_it_replaced_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker died in the clean-up, which takes long for much data."""
    before, first, second = (staged(tmp_path, job) for job in ("c" * 32, ANN, BOB))
    sinks.commit_sink(before)
    with monkeypatch.context() as dying:
        dying.setattr(local, "remove", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sinks.commit_sink(first)
    assert Path(first.staging).exists()
    sinks.commit_sink(second)
    sinks.commit_sink(first)
    assert rows(tmp_path) == [BOB]
    assert not (tmp_path / STAGING_NAME).exists()


def test_notes_that_cannot_be_read_tell_nothing(tmp_path: Path) -> None:
    first, second = staged(tmp_path, ANN), staged(tmp_path, BOB)
    Path(second.staging + rivals.NOTE).write_text("{")
    assert sinks.commit_sink(first).note == ""
    assert sinks.commit_sink(msgspec.structs.replace(second)).note == ""


def test_a_directory_that_can_not_be_made_says_so(tmp_path: Path) -> None:
    """It is no rival that takes it away again and again."""
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere" / "at-all")
    with pytest.raises(FileExistsError):
        local.make_directory(dangling)
    with pytest.raises(FileNotFoundError):
        local.make_directory(Path("/proc/no-such-place/staging"))
