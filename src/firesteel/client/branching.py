"""Branches of streaming jobs: begun beside the job, and put into its place. docs/branches.md says what holds then."""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firesteel.client import branchrules as rules
from firesteel.client.building import BUILD_ENTRY_POINT, call_in_process
from firesteel.client.http import HttpClusterClient
from firesteel.client.transport import RequestFailed
from firesteel.model import options
from firesteel.model.branches import Branch, JobCopy, WireValue, branch_of, branch_text
from firesteel.model.ids import JobID, derived_id
from firesteel.model.jobgraph import InvalidJobGraph, JobType
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint, QuerySight
from firesteel.model.views import JobView
from firesteel.pipeline.build import BuildFailure, BuildRequest, BuiltJob, decode_build_reply
from firesteel.pipeline.errors import InvalidPipeline
from firesteel.pipeline.scripts import is_script
from firesteel.runtime.client import CancelRefused, DuplicateJob, StorageFull, TooManyJobs, UnknownJob

_GOES_ON = (JobStatus.RUNNING, JobStatus.RESTARTING)
PATIENCE_S = 15.0
"""A promoted job that has no slots after this time is given those of the branch."""


class BranchRefused(Exception):
    """The caller's fault, or what he has not seen yet: nothing was changed."""


class BranchFailed(RuntimeError):
    """The job that was to begin has failed; the text says of what, and what there is now."""


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """A branch that somebody wants."""

    build: BuildRequest
    """Its pipeline; `parameters` and `configuration` are those that differ from the job's."""
    defaults: Mapping[str, str]
    """Options that hold where neither the job nor the request has them."""
    savepoint_dir: str = ""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A branch in the place of the job it branched from."""

    job_id: JobID
    savepoint: str
    """Where that job was stopped, and this one has gone on."""
    stopped: JobID


class Branching:
    """`say` is told what happens, in sentences; `stands` is what there is when somebody interrupts."""

    def __init__(self, client: HttpClusterClient, say: Callable[[str], None] = lambda text: None) -> None:
        self._client, self._say = client, say
        self.stands = "nothing was changed"

    async def branch(self, parent_id: JobID, request: BranchRequest) -> JobID:
        """Start it from a live savepoint of the job, which goes on; returns when its queries run.

        Raises BranchRefused, BranchFailed, InvalidPipeline, SavepointFailed, and what submitting raises.
        """
        parent = await self._client.request_job(parent_id)
        if problem := rules.why_not_branched(parent):
            raise BranchRefused(problem)
        if is_script(request.build.file):
            raise BranchRefused(f"{request.build.file} is a plain script: a branch is a streaming pipeline")
        sights = await self._client.look_at_queries(parent_id)
        with tempfile.TemporaryDirectory(prefix="firesteel-") as directory:
            built = await self._built(request, parent, directory)
            return await self._started(built, parent, sights, request.savepoint_dir)

    async def promote(self, branch_id: JobID, parameters: Mapping[str, str] = {}, savepoint_dir: str = "") -> Promotion:
        """Stop the job it branched from with a savepoint, start the branch's code from there in its place, and cancel the
        branch. After an interruption the same call goes on where it was.

        Raises BranchRefused, InvalidJobGraph, SavepointFailed, BranchFailed.
        """
        view = await self._client.request_job(branch_id)
        branch = branch_of(view.configuration)
        mark = derived_id("promotion", branch_id)[: rules.MARKED_DIGITS]
        promoted_id = JobID(derived_id("promoted", branch_id))
        if branch is not None and await self._is_known(promoted_id):
            parent = await self._client.request_job(branch.of)
            return await self._take_over(view, parent, promoted_id, rules.stopped_for(parent, mark))
        overlay: dict[str, WireValue] = {**(branch.parameters if branch is not None else {}), **parameters}
        if problem := rules.why_not_promoted(view, branch, overlay):
            raise BranchRefused(problem)
        assert branch is not None, "what is no branch is refused"
        shown = ", ".join(f"{name}={value}" for name, value in overlay.items())
        self._say(f"the new job has {shown}, and the branch's other parameters")
        copy = JobCopy(job_id=promoted_id, parameters=overlay, dry_run=True)
        await self._client.copy_job(branch_id, copy)  # what is wrong with them is told before anything is stopped
        savepoint = await self._stopped(branch.of, mark, savepoint_dir)
        parent = await self._client.request_job(branch.of)
        self._say(f"job {branch.of} was stopped, with savepoint {savepoint}")
        self.stands = (
            f"job {branch.of} was stopped, with savepoint {savepoint}. `firesteel promote {branch_id}` goes on from there;"
            f" the way back, FILE being the former version: {rules.way_back(parent, savepoint)}"
        )
        note = Branch(of=branch.of, savepoint=savepoint, promoted=True, outputs=branch.outputs)
        changed = {options.RESTORE_PATH.key: savepoint, options.BRANCH.key: branch_text(note)}
        await self._submit_copy(branch_id, msgspec.structs.replace(copy, configuration=changed, dry_run=False))
        return await self._take_over(view, parent, promoted_id, savepoint)

    async def _submit_copy(self, branch_id: JobID, copy: JobCopy) -> None:
        """Raises BranchFailed."""
        try:
            await self._client.copy_job(branch_id, copy)
        except (InvalidJobGraph, DuplicateJob, TooManyJobs, StorageFull, RequestFailed) as error:
            raise BranchFailed(f"the new job was refused: {error}. {_capital(self.stands)}") from None

    async def _built(self, request: BranchRequest, parent: JobView, directory: str) -> BuiltJob:
        """Raises InvalidPipeline, BranchRefused."""
        parameters, secret = rules.inherited(parent.parameters)
        settings, hidden = rules.inherited_options(parent)
        for name in (*secret, *hidden):
            self._say(f"{name} of job {parent.job_id} is secret: give it again if it is needed")
        asked = msgspec.structs.replace(
            request.build,
            inherited=parameters,
            configuration={**request.defaults, **settings, **request.build.configuration},
            output_dir=directory,
        )
        payload = msgspec.json.encode(asked)
        reply = decode_build_reply(await call_in_process(Path(directory), BUILD_ENTRY_POINT, payload))
        if isinstance(reply, BuildFailure):
            raise InvalidPipeline(reply.message)
        if reply.graph.job_type is not JobType.STREAMING:
            raise BranchRefused(
                f'{request.build.file} is a batch pipeline: a branch says Pipeline(..., mode="streaming")'
            )
        for warning in reply.warnings:
            self._say(f"warning: {warning}")
        if parent.directory and parent.directory != reply.graph.environment.directory:
            self._say(f"relative paths start in {parent.directory}, as those of job {parent.job_id}")
        return reply

    async def _started(self, built: BuiltJob, parent: JobView, sights: list[QuerySight], savepoint_dir: str) -> JobID:
        graph = built.graph
        note = rules.branch_note(graph, parent, built.inherited, sights)
        self.stands = f"a savepoint of job {parent.job_id}, which goes on, may be there; there is no branch"
        savepoint = await self._client.take_savepoint(parent.job_id, savepoint_dir)
        self.stands = f"savepoint {savepoint} was taken, and there is no branch yet"
        self._say(f"savepoint {savepoint}")
        note = rules.with_savepoint(note, savepoint, await self._client.look_at_queries(parent.job_id, savepoint))
        started = {options.RESTORE_PATH.key: savepoint, options.BRANCH.key: branch_text(note)}
        directory = parent.directory or graph.environment.directory
        graph = msgspec.structs.replace(
            graph,
            configuration={**graph.configuration, **started},
            environment=msgspec.structs.replace(graph.environment, directory=directory),
        )
        self.stands = (
            f"branch {graph.job_id}, from savepoint {savepoint}, may have been submitted: `firesteel list` shows it"
        )
        job_id = await self._client.submit_job(graph, built.artifact_paths())
        self.stands = f"branch {job_id} was submitted, and goes on"
        async for view in self._follow(job_id):
            if view.status.is_globally_terminal:
                raise BranchFailed(f"branch {job_id} has ended: {_why(view)}. Savepoint {savepoint} stays")
        return job_id

    async def _stopped(self, parent_id: JobID, mark: str, savepoint_dir: str) -> str:
        """Where the job was stopped for the promotion with that mark. Raises BranchRefused, SavepointFailed."""
        parent = await self._client.request_job(parent_id)
        if not parent.status.is_globally_terminal:
            self.stands = f"job {parent_id} is being stopped with a savepoint, unless that fails: the same command goes on from there"
            chosen = mark + secrets.token_hex(16)[rules.MARKED_DIGITS :]
            return await self._client.take_savepoint(
                parent_id, savepoint_dir, after=AfterSavepoint.STOP, savepoint_id=chosen
            )
        savepoint = rules.stopped_for(parent, mark)
        if not savepoint:
            raise BranchRefused(
                f"job {parent_id} ({parent.name}) has ended, it is {parent.status.value}, and was not stopped for this"
                " branch: nothing says where its output ends. Start the new version from a savepoint of it, if it has one:"
                " firesteel submit FILE --from-savepoint PATH"
            )
        return savepoint

    async def _take_over(self, view: JobView, parent: JobView, job_id: JobID, savepoint: str) -> Promotion:
        """Raises BranchFailed."""
        loop = asyncio.get_running_loop()
        waits_since_s = loop.time()
        async for now in self._follow(job_id):
            if now.status is JobStatus.FAILED or now.status is JobStatus.CANCELED:
                raise BranchFailed(
                    f"job {job_id}, which was to go on, has ended: {_why(now)}. The output is whole up to savepoint"
                    f" {savepoint}, which stays. The way back, FILE being the former version:"
                    f" {rules.way_back(parent, savepoint)}"
                )
            if now.queue is None:
                waits_since_s = loop.time()
            elif loop.time() - waits_since_s > PATIENCE_S:
                self._say(f"job {job_id} waits for slots, which the branch may have")
                break
        if not view.status.is_globally_terminal:
            with contextlib.suppress(CancelRefused):  # it finishes
                await self._client.cancel_job(view.job_id)
            self._say(f"branch {view.job_id} is being cancelled; its output stays")
        return Promotion(job_id, savepoint, parent.job_id)

    async def _follow(self, job_id: JobID) -> AsyncIterator[JobView]:
        """The job's views until its queries run or it has ended."""
        failures = 0
        async for view in self._client.follow_job(job_id):
            if len(view.exceptions) > failures and view.status in _GOES_ON:
                self._say(f"job {job_id}: {view.exceptions[0].failure.headline()}; it is tried again")
                failures = len(view.exceptions)
            yield view
            if rules.runs(view):
                return

    async def _is_known(self, job_id: JobID) -> bool:
        try:
            await self._client.request_job(job_id)
        except UnknownJob:
            return False
        return True


def _why(view: JobView) -> str:
    failure = view.exceptions[0].failure.headline() if view.exceptions else view.reason
    return f"{view.status.value}, {failure}" if failure else view.status.value


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
