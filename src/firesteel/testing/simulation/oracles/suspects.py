"""Workers that a JobMaster has lost: no slot of theirs is asked for until they are heard of."""

from firesteel.core.effects import Effect, Event, Received, Send
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.model.ids import FencingToken, JobID, ResourceID
from firesteel.model.messages import DeclareRequiredResources, Envelope, RequestSlots


class Suspects:
    """What each ResourceManager was told of losses, looked at after each of its events."""

    def __init__(self) -> None:
        self._lost: dict[FencingToken | None, dict[str, ResourceID]] = {}
        """Workers by their addresses, by the ResourceManager that was told of their loss."""
        self._declared: dict[tuple[FencingToken | None, JobID], tuple[FencingToken | None, int]] = {}
        """The newest needs with a loss that it has heard of: whose, and their number."""

    def after_event(self, core: ResourceManagerCore, event: Event, effects: list[Effect]) -> None:
        lost = self._lost.setdefault(core.token, {})
        if isinstance(event, Received):
            lost.pop(event.envelope.sender, None)
            self._note(core, event.envelope, lost)
        for address in [address for address, worker in lost.items() if worker not in core.workers]:
            del lost[address]
        for envelope in (effect.envelope for effect in effects if isinstance(effect, Send)):
            is_request = isinstance(envelope.body, RequestSlots)
            assert not is_request or envelope.recipient not in lost, (
                "a slot of a worker is asked for that a job has lost"
            )

    def _note(self, core: ResourceManagerCore, envelope: Envelope, lost: dict[str, ResourceID]) -> None:
        """The newest word of the job's leader counts, once."""
        body, token = envelope.body, envelope.sender_token
        if not isinstance(body, DeclareRequiredResources) or envelope.recipient_token != core.token:
            return
        job = core.slots.tracker.jobs.get(body.job_id)
        key, number = (core.token, body.job_id), (token, body.sequence)
        if job is None or (job.leader.token, job.sequence) != number or self._declared.get(key) == number:
            return
        if body.lost:
            self._declared[key] = number
            lost |= {view.address: view.resource_id for view in core.task_managers() if view.resource_id in body.lost}
