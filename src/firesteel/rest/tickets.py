"""Tickets for pages that a browser opens by itself, which can't say who asks: an address nobody can guess, for a while."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from firesteel.model.ids import JobID
from firesteel.rest.security import User

VALID_MS = 3_600_000
"""Time that a ticket is good for."""

TICKETS_MAX = 1_000
"""Tickets that are good at a time: the oldest goes first."""

_BYTES = 24


@dataclass(frozen=True, slots=True)
class Ticket:
    """Lets whoever has it see what `user` may see of the job."""

    job_id: JobID
    user: User
    until_ms: int


@dataclass
class Tickets:
    """Those of one master: another leader knows none of them."""

    _known: OrderedDict[str, Ticket] = field(default_factory=OrderedDict)

    def issue(self, job_id: JobID, user: User, now_ms: int) -> str:
        name = secrets.token_urlsafe(_BYTES)
        self._known[name] = Ticket(job_id, user, now_ms + VALID_MS)
        if len(self._known) > TICKETS_MAX:
            self._known.popitem(last=False)
        return name

    def find(self, name: str, now_ms: int) -> Ticket | None:
        """The ticket, while it is good."""
        found = self._known.get(name)
        return found if found is not None and now_ms < found.until_ms else None
