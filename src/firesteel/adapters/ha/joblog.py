"""The log of a store of jobs, in files that several masters share and one at a time may write.

`<number>.journal` is a claim, and what its holder has written; `<number>.snapshot` is all that was written
before, and appears whole. Who wants to write creates the journal of the next number, which only one can. It
then reads the newest journal that has a snapshot, and writes its own snapshot: from then on nothing in older
files counts. Whoever has written looks for a higher number before it says so.
"""

import logging

from firesteel.adapters.ha.disk import TEMPORARY, Directory
from firesteel.adapters.ha.segments import (
    JournalCorrupt,
    JournalHeader,
    line,
    read_header,
    read_journal,
    read_snapshot,
    snapshot_file,
)
from firesteel.core.journal.storedjobs import AnyEntry, RecordsAppended, StoredJobs
from firesteel.model.ids import FencingToken
from firesteel.runtime.services import StaleLeader

JOURNAL, SNAPSHOT = "journal", "snapshot"

logger = logging.getLogger(__name__)


class JobLog:
    """Blocking, for one thread at a time. `snapshot_records` are written between two snapshots, at least."""

    def __init__(self, directory: Directory, *, history_size: int, snapshot_records: int) -> None:
        self._directory, self._history_size, self._snapshot_records = directory, history_size, snapshot_records
        self.jobs = StoredJobs(history_size)
        """What is durable, while this is the log's writer."""
        self._published: JournalHeader | None = None
        """The last claim that was made here."""
        self._claim: JournalHeader | None = None
        """The same, once it has a snapshot and as long as there is no later one."""
        self._sound = False
        """Whether the journal may be appended to: not once a write has failed, since it may be there or not."""
        self._length = self._records = self._snapshot_length = 0

    def claim(self, token: FencingToken) -> None:
        """Shut out all other writers with older tokens, and read what they have written.

        Raises StaleLeader, OSError (then try again), or JournalCorrupt.
        """
        newest = self._newest()
        if self._claim is not None and newest == self._claim.number:
            if token < self._claim.token:
                raise StaleLeader(f"the jobs are led under {self._claim.token}")
            self._turn_over(token)
            return
        self._claim = None
        if self._published is None or self._published != JournalHeader(number=newest, token=token):
            if newest:
                newest, holder = self._holder(newest)
                if token < holder:
                    raise StaleLeader(f"the jobs are led under {holder}")
            self._publish(JournalHeader(number=newest + 1, token=token))
        assert self._published is not None, "it has just been published"
        number = self._published.number
        self.jobs, of, length = self._read(before=number)
        prepared = self._prepare(number, of, length)
        self._claim = self._published
        try:
            self._begin(prepared)
        except OSError:
            self._claim = self._published = None  # Its snapshot may be there: the next try needs another number.
            raise

    def append(self, entries: list[AnyEntry]) -> None:
        """Durable and still the only writer when it returns; with no entries, only the latter.

        Raises StaleLeader, or OSError: then the entries may be durable or not, until something else is.
        """
        if self._claim is None:
            raise StaleLeader("the jobs have not been claimed, or another leader has claimed them since")
        if not self._sound or self._is_due():
            try:
                self._turn_over(self._claim.token)
            except OSError as error:
                if not self._sound:
                    raise
                self._records = 0
                logger.warning("no snapshot of the jobs could be written; the journal goes on without (%s)", error)
        if not entries:
            self._check()
            return
        data = line(entries)
        self._sound = False
        try:
            self._directory.append(_name(self._claim.number, JOURNAL), data)
        finally:
            self._check()
        for entry in entries:
            self.jobs.apply(entry)
        self._sound = True
        self._length += len(data)
        self._records += sum(len(entry.records) if isinstance(entry, RecordsAppended) else 1 for entry in entries)

    # ── claims ───────────────────────────────────────────────────────────────────────────────
    def _newest(self) -> int:
        return max(_numbers(self._directory.names(), JOURNAL), default=0)

    def _holder(self, newest: int) -> tuple[int, FencingToken]:
        """Number and leader of the newest journal, of which that was the number; its holder may begin another meanwhile."""
        while True:
            name = _name(newest, JOURNAL)
            try:
                return newest, read_header(name, self._contents(name)).token
            except FileNotFoundError:
                if (newer := self._newest()) <= newest:
                    raise
                newest = newer

    def _contents(self, name: str) -> bytes:
        try:
            return self._directory.read(name)
        except IsADirectoryError:
            raise JournalCorrupt(f"{name} is a directory: put the file back that belongs there, from a copy") from None

    def _check(self) -> None:
        assert self._claim is not None, "only a writer checks its claim"
        newest = self._newest()
        if newest != self._claim.number:
            mine, self._claim = self._claim, None
            raise StaleLeader(f"another leader has claimed the jobs (journal {newest}, mine was {mine.number})")

    def _publish(self, header: JournalHeader) -> None:
        name = _name(header.number, JOURNAL)
        try:
            self._directory.create(name, line(header))
        except FileExistsError:
            if read_header(name, self._contents(name)).token != header.token:
                self._claim = None
                raise StaleLeader(f"another leader has claimed the jobs (journal {header.number})") from None
            # It is this one's own, of a try that failed when the file had its name.
        self._published = header

    # ── snapshots ────────────────────────────────────────────────────────────────────────────
    def _is_due(self) -> bool:
        """Whether a snapshot is due: by bytes too, so that snapshots cost no more than what they replace."""
        return self._records >= self._snapshot_records and self._length >= self._snapshot_length

    def _turn_over(self, token: FencingToken) -> None:
        """Go on in a new journal. What takes space is written first: a full disk leaves the old one in use."""
        assert self._claim is not None, "only a writer turns over"
        header = JournalHeader(number=self._claim.number + 1, token=token)
        prepared = self._prepare(header.number, self._claim.number, self._length)
        self._sound = False
        try:
            self._publish(header)
        except OSError:
            self._directory.remove(prepared)
            raise
        self._claim = header
        self._begin(prepared)

    def _prepare(self, number: int, of: int, length: int) -> str:
        data = snapshot_file(number, of, length, self.jobs.snapshot())
        self._snapshot_length = len(data)
        return self._directory.prepare(data)

    def _begin(self, prepared: str) -> None:
        assert self._claim is not None, "only a writer begins a journal"
        number = self._claim.number
        self._directory.publish(prepared, _name(number, SNAPSHOT))
        self._check()
        self._sound = True
        self._length = len(line(self._claim))
        self._records = 0
        try:
            for name in self._directory.names():
                if name.startswith(TEMPORARY) or _number(name) < number:
                    self._directory.remove(name)
        except OSError as error:
            logger.warning(
                "old journals could not be deleted, which is tried again after the next snapshot (%s)", error
            )

    def _read(self, before: int) -> tuple[StoredJobs, int, int]:
        """Read what earlier writers left: the jobs, the number of the journal they end in, and how much of it counts.

        A journal without a snapshot is a claim that came to nothing.
        """
        names = self._directory.names()
        journals = [number for number in _numbers(names, JOURNAL) if number < before]
        complete = [number for number in journals if _name(number, SNAPSHOT) in names]
        newest = max(complete, default=0)
        for number in journals:
            name = _name(number, JOURNAL)
            if number > newest and read_journal(name, self._contents(name))[0]:
                raise JournalCorrupt(f"{_name(number, SNAPSHOT)} is missing beside {name}: restore it from a copy")
        jobs = StoredJobs(self._history_size)
        if not newest:
            return jobs, 0, 0
        name = _name(newest, SNAPSHOT)
        for entry in read_snapshot(name, self._contents(name)):
            jobs.apply(entry)
        name = _name(newest, JOURNAL)
        entries, length = read_journal(name, self._contents(name))
        for entry in entries:
            jobs.apply(entry)
        return jobs, newest, length


def _name(number: int, kind: str) -> str:
    return f"{number:012d}.{kind}"


def _number(name: str) -> int:
    """0 for a file that is neither journal nor snapshot."""
    stem, _, kind = name.partition(".")
    return int(stem) if kind in (JOURNAL, SNAPSHOT) and stem.isdigit() else 0


def _numbers(names: list[str], kind: str) -> list[int]:
    return sorted(_number(name) for name in names if name.endswith(f".{kind}") and _number(name))
