"""A sink's commit in a bucket, where nothing can be renamed. Every request may be the last before a crash; repeating goes on.

The staged objects are copied, by the store itself, to names of their own below the target, which hold the commit's id.
Then the manifest is written, on condition that there is none: from here on the commit counts, and it says which former
commits no longer do. Only then what it replaces is deleted: *overwrite*, all that no manifest which still counts names;
*overwrite-partitions*, the same within the partitions it has files for. What is staged goes last: as long as there is
some of it, the deletion may not be finished. Copies and deletions can be repeated without harm, so nobody has to know
how far another worker came.

A late copy of a worker that was taken for dead finds nothing to copy any more, and parts that it has uploaded are given up.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from firesteel.adapters.storage import rivals
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken, Unusable
from firesteel.adapters.storage.keys import Keys
from firesteel.adapters.storage.manifest import MANIFESTS, REPLACED_MAX, job_of, record_of, unique_name
from firesteel.adapters.storage.objects import Conflict, put_once
from firesteel.adapters.storage.schemes import bucket_and_path
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.unremoved import staging_root, unremoved
from firesteel.model.tasks import Committed, SinkCommit

COPY_THREADS = 16
"""Copies that are asked for at once: the store does the work."""
BY_PARTITION = "overwrite-partitions"
_SUCCESS = "_SUCCESS"


class _Staged(NamedTuple):
    source: str
    name: str
    """Below the target."""
    size_bytes: int


class ObjectCommit:
    """One commit, by one worker, which nobody disturbs. `check` raises when that is no longer so."""

    def __init__(self, commit: SinkCommit, keys: Keys, check: Callable[[], None]) -> None:
        self._commit, self._keys, self._check = commit, keys, check
        self._root = f"{key_of(commit.target)}/"
        self._stagings = [key_of(staging) for staging in commit.stagings]

    def carry_out(self) -> Committed:
        """Raises CommitRefused or OSError."""
        told, standing = "", self._standing()
        if self._commit.commit_id not in standing:
            if self._was_begun() and self._commit.commit_id in replaced_by(self._keys, self._root, standing):
                self._remove_staged()  # it was done, and another job came after it
                return Committed()
            told = self._rivals(standing)
            if not self._show(standing):
                self._remove_staged()
                return rivals.left_alone(self._commit.target, told)
        if self._is_staged():
            self._delete_replaced()
        self._remove_staged()
        return Committed(told)

    # ── what is new ──────────────────────────────────────────────────────────────────────────
    def _show(self, standing: list[str]) -> bool:
        """Have the commit count. False for one that is to leave what is there."""
        mode = self._commit.mode
        if mode in ("error", "ignore") and self._others_have_data():
            self._withdraw()
            if mode == "ignore":
                return False
            raise TargetTaken(f"{self._commit.target} exists and holds data")
        staged = list(self._staged())
        with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy") as threads:
            list(threads.map(self._copy, staged))
        self._keys.abort_uploads(self._root, self._mark)
        self._keys.write(self._root + _SUCCESS, b"")
        record = record_of(self._commit, [each.name for each in staged])
        if mode == "overwrite":
            older = replaced_by(self._keys, self._root, standing)
            record["replaced"] = [*standing, *older[:REPLACED_MAX]]
        elif mode == BY_PARTITION:
            record["replaced_within"] = standing
        self._begin()
        manifest = json.dumps(record, indent=1).encode()
        put_once(self._keys, manifest_key(self._root, self._commit.commit_id), manifest, None)
        return True

    def _begin(self) -> None:
        """Note that a manifest is about to be written. Of a worker that is late, the note is gone."""
        key = self._stagings[0] + NOTE
        try:
            found = self._keys.get(key)
        except FileNotFoundError:
            put_once(self._keys, key, json.dumps({BEGUN: True}).encode(), None)
            return
        if BEGUN not in (note := _parsed(found.data)):
            put_once(self._keys, key, json.dumps(note | {BEGUN: True}).encode(), found.tag)

    def _was_begun(self) -> bool:
        """Whether a manifest may have been written. One that is gone is looked for in those of all others: rarely."""
        return BEGUN in _note(self._keys, self._stagings[0]) or not self._is_staged()

    def _staged(self) -> Iterator[_Staged]:
        """All that the subtasks have staged, under the names that readers will see. Raises CommitRefused."""
        taken: set[str] = set()
        parts = [self._commit.files, *(part.files for part in self._commit.parts)]
        for index, (prefix, names) in enumerate(zip(self._stagings, parts, strict=True)):
            sizes = {each.key.removeprefix(f"{prefix}/"): each.size_bytes for each in self._keys.found(f"{prefix}/")}
            for name in names:
                if name not in sizes:
                    raise CommitRefused(
                        f"the staged output of {self._commit.function} for {self._commit.target} is no longer complete"
                        f" ({name} is gone from {self._keys.uri(prefix)}): something outside firesteel removed it; run the"
                        " job again"
                    )
                here = unique_name(name, f"s{index}") if name in taken else name
                taken.add(here)
                yield _Staged(f"{prefix}/{name}", unique_name(here, self._commit.commit_id), sizes[name])

    def _copy(self, staged: _Staged) -> None:
        self._keys.copy(staged.source, self._root + staged.name, staged.size_bytes, self._check)

    def _others_have_data(self) -> bool:
        """What an earlier try of this commit has put there is not theirs."""
        below = self._keys.found(self._root)
        return any(not self._is_mine(each.key) for each in below if each.key not in (self._root, self._root + _SUCCESS))

    def _withdraw(self) -> None:
        """Take back what an earlier try has copied, before others were faster."""
        self._keys.delete([each.key for each in self._keys.found(self._root) if self._is_mine(each.key)])

    def _is_mine(self, key: str) -> bool:
        return self._mark in key.rpartition("/")[2]

    @property
    def _mark(self) -> str:
        return self._commit.commit_id[:16]

    # ── what is old ──────────────────────────────────────────────────────────────────────────
    def _delete_replaced(self) -> None:
        """Delete what this commit takes the place of, and nothing that came after it."""
        own = read_manifest(self._keys, self._root, self._commit.commit_id)
        files = [str(name) for name in own.get("files", ())]
        if self._commit.mode == "overwrite":
            scopes = [self._root]
        elif self._commit.mode == BY_PARTITION:
            scopes = [f"{self._root}{each}/" for each in sorted({name.rpartition("/")[0] for name in files})]
        else:
            return
        replaced = {*own.get("replaced", ()), *own.get("replaced_within", ())}
        later = [each for each in self._standing() if each not in replaced and each != self._commit.commit_id]
        kept = {self._root + name for name in (*files, _SUCCESS)}
        for each in later:
            kept.update(self._root + str(name) for name in read_manifest(self._keys, self._root, each).get("files", ()))
        kept.update(manifest_key(self._root, each) for each in (self._commit.commit_id, *later))
        for scope in scopes:
            self._keys.delete([each.key for each in self._keys.found(scope) if each.key not in kept])

    # ── what is staged ───────────────────────────────────────────────────────────────────────
    def _is_staged(self) -> bool:
        return any(any(self._keys.found(f"{prefix}/", at_most=1)) for prefix in self._stagings)

    def _remove_staged(self) -> None:
        for prefix in self._stagings:
            remove_staged(self._keys, prefix)

    # ── who else ─────────────────────────────────────────────────────────────────────────────
    def _standing(self) -> list[str]:
        return standing_commits(self._keys, self._root)

    def _rivals(self, standing: list[str]) -> str:
        own = job_of(self._commit.staging)
        known = _note(self._keys, self._stagings[0]).get("commits")
        old = [*known, self._commit.commit_id] if isinstance(known, list) else standing
        since = [read_manifest(self._keys, self._root, each) for each in standing if each not in old]
        before = sorted({str(each.get("job_id") or "another job") for each in since} - {own})
        return rivals.sentence(self._commit, self._commit.target, before, self._jobs_that_write(own))

    def _jobs_that_write(self, own: str) -> list[str]:
        """Other jobs that have staged for this target, or are about to, and whose rows are needed."""
        left = [key_of(each.location) for each in unremoved(staging_root(self._commit.staging))]
        above = f"{self._stagings[0].rpartition(f'{STAGING_NAME}/')[0]}{STAGING_NAME}/"
        found = []
        for job in self._keys.steps(above):
            notes = (
                (each.key for each in self._keys.found(f"{above}{job}/") if each.key.endswith(NOTE))
                if job != own
                else ()
            )
            if any(
                _note(self._keys, key.removesuffix(NOTE)).get("place") == self._root
                for key in notes
                if not rivals.is_of(key, left)
            ):
                found.append(job)
        return sorted(found)


NOTE = ".target"
"""Ends the key of the note of what is staged, which else is that of its prefix."""
BEGUN = "begun"
"""In the note: a manifest is about to be written."""


def key_of(uri: str) -> str:
    return bucket_and_path(uri)[1]


def manifest_key(root: str, commit_id: str) -> str:
    return f"{root}{MANIFESTS}/{commit_id}.json"


def standing_commits(keys: Keys, root: str) -> list[str]:
    """Ids of the commits whose manifests are at the target."""
    found = (each.key.rpartition("/")[2] for each in keys.found(f"{root}{MANIFESTS}/"))
    return [name.removesuffix(".json") for name in found if name.endswith(".json")]


def replaced_by(keys: Keys, root: str, standing: list[str]) -> list[str]:
    """Ids of commits that those at the target have replaced, as far as they are remembered."""
    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="read-manifests") as threads:
        manifests = threads.map(lambda each: read_manifest(keys, root, each), standing)
    return list(dict.fromkeys(str(each) for manifest in manifests for each in manifest.get("replaced", ())))


def read_manifest(keys: Keys, root: str, commit_id: str) -> dict[str, Any]:
    """What it says; of one that is gone or is none, nothing."""
    return _read(keys, manifest_key(root, commit_id))


def write_note(keys: Keys, target: str, staging: str) -> None:
    """Rows for `target` are about to be staged. Raises OSError, Unusable for a store that does not keep to conditions."""
    root, key = f"{key_of(target)}/", key_of(staging) + NOTE
    data = json.dumps({"place": root, "commits": standing_commits(keys, root)}).encode()
    put_once(keys, key, data, None)
    for condition, after in (("If-None-Match", None), ("If-Match", '"0123456789abcdef0123456789abcdef"')):
        with contextlib.suppress(Conflict):
            keys.put(key, data, after)
            raise Unusable(
                f"{target}: the store writes an object whatever {condition} says, so two workers could spoil one commit; take"
                " a store with conditional writes"
            )


def remove_staged(keys: Keys, prefix: str) -> None:
    """Delete what is staged below, uploads that were not finished, and the note."""
    keys.abort_uploads(f"{prefix}/")
    keys.delete([each.key for each in keys.found(f"{prefix}/")])
    keys.delete([prefix + NOTE])


def _note(keys: Keys, prefix: str) -> dict[str, Any]:
    return _read(keys, prefix + NOTE)


def _read(keys: Keys, key: str) -> dict[str, Any]:
    try:
        return _parsed(keys.get(key).data)
    except FileNotFoundError:
        return {}


def _parsed(data: bytes) -> dict[str, Any]:
    """The record; of what is none, nothing."""
    with contextlib.suppress(ValueError):
        content = json.loads(data)
        return content if isinstance(content, dict) else {}
    return {}
