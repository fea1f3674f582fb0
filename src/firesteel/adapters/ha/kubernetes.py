"""The register of the leading process in Kubernetes: a ConfigMap that is changed by compare-and-set, and a Lease.

The ConfigMap has the leader's record and epoch; a change names the `resourceVersion` that it is for, which the API
server compares. The Lease beside it, of the same name, has the leader's signs of life, and the epoch that they are
for: it is renewed without a look at who else does, since what another epoch's leader writes there is read as nothing.
"""

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from firesteel.adapters.kubernetes.api import ApiError, Conflict, KubernetesApi, Metadata, Unreachable
from firesteel.core.leadership.lease import Sign
from firesteel.model.stored import UNREADABLE
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered

CONFIG_MAPS, LEASES = "api/v1/configmaps", "apis/coordination.k8s.io/v1/leases"
EPOCH = "firesteel/epoch"
"""Annotation of the Lease: whose signs of life it has."""

UNSIGNED = 1
"""Moment of a leader that has claimed and not renewed the Lease yet."""

AGAIN_S = 1.0
"""Time between a watch that has ended, or a first look that had no answer, and the next one."""

logger = logging.getLogger(__name__)


class _ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] = {}


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str = ""
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    metadata: Metadata
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class KubernetesRegister(LeaderRegister):
    """A LeaderRegister in the objects `name`; the Lease says that it is over after `lease_s`."""

    def __init__(self, api: KubernetesApi, name: str, *, lease_s: float) -> None:
        self._api, self._name, self._lease_s = api, name, lease_s
        self._watching = BackgroundTasks()
        self._is_watched = False
        self._news = asyncio.Event()

    async def open(self) -> None:
        """An API server that does not answer is waited for as long as leaders are that don't renew their Lease."""
        until_s = time.monotonic() + self._lease_s
        while True:
            try:
                await self.newest()
                return
            except Unreachable as error:
                if time.monotonic() + AGAIN_S > until_s:
                    raise
                logger.warning("%s: it is asked again", error)
            await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        await self._watching.close()
        await self._api.close()

    async def newest(self) -> Registered | None:
        found, _ = await self._read()
        if found is None:
            return None
        epoch, record = found
        lease = await self._api.get(LEASES, self._name, _Lease)
        return Registered(epoch, record, Sign(epoch, _moment(lease, epoch)))

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        """The first epoch of all is the time in seconds, so that tokens grow also when the ConfigMap was deleted."""
        found, version = await self._read()
        if (found[0] if found is not None else 0) != after:
            return None
        epoch = after + 1 if after else int(time.time())
        data = {"epoch": str(epoch), "leader": msgspec.json.encode(record).decode()}
        return epoch if await self._write(data, version) else None

    async def touch(self, epoch: int) -> bool:
        found, _ = await self._read()
        if found is None or found[0] != epoch:
            return False
        await self._sign(epoch, found[1].name)
        return True

    async def give_up(self, epoch: int) -> None:
        await self._sign(epoch, "")

    async def changed(self, limit_s: float) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._watching.start(self._watch(), "watch of the leader's ConfigMap")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._news.wait()
        self._news.clear()

    async def _read(self) -> tuple[tuple[int, LeaderRecord] | None, str]:
        """Epoch and record of the leader; version of the ConfigMap, empty when there is none."""
        found = await self._api.get(CONFIG_MAPS, self._name, _ConfigMap)
        if found is None:
            return None, ""
        try:
            record = msgspec.json.decode(found.data["leader"], type=LeaderRecord)
            return (int(found.data["epoch"]), record), found.metadata.resource_version
        except (KeyError, ValueError, *UNREADABLE) as error:
            raise OSError(f"the ConfigMap {self._name} is not a record of a leader: delete it ({error})") from None

    async def _write(self, data: dict[str, str], version: str) -> bool:
        """Change the ConfigMap of that version, or create it; whether nobody was first."""
        try:
            if not version:
                await self._api.create(CONFIG_MAPS, self._object("v1", "ConfigMap", data=data))
                return True
            content = {"metadata": {"resourceVersion": version}, "data": data}
            return await self._api.change(CONFIG_MAPS, self._name, content)
        except Conflict:
            return False

    async def _sign(self, epoch: int, holder: str) -> None:
        """Renew the Lease; without a holder it is given up."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": max(1, round(self._lease_s))}
        annotations = {EPOCH: str(epoch)}
        content = {"metadata": {"annotations": annotations}, "spec": spec}
        if not await self._api.change(LEASES, self._name, content):
            made = self._object("coordination.k8s.io/v1", "Lease", spec=spec)
            made["metadata"]["annotations"] = annotations
            with contextlib.suppress(Conflict):
                await self._api.create(LEASES, made)

    def _object(self, version: str, kind: str, **content: Any) -> dict[str, Any]:
        labels = {"app.kubernetes.io/managed-by": "firesteel"}
        return {"apiVersion": version, "kind": kind, "metadata": {"name": self._name, "labels": labels}, **content}

    async def _watch(self) -> None:
        """Without it there are looks at intervals; so what is wrong with it is told once, and it is tried again."""
        is_told = False
        while True:
            try:
                async for _ in self._api.versions(CONFIG_MAPS, self._name):
                    is_told = False
                    self._news.set()
            except ApiError as error:
                if not is_told:
                    logger.warning("news of the leader come late (%s)", error)
                is_told = True
            await asyncio.sleep(AGAIN_S)


def _moment(lease: _Lease | None, epoch: int) -> int:
    """Of the last sign of life that the leader of the epoch has given: microseconds of its own clock."""
    if lease is None or lease.metadata.annotations.get(EPOCH) != str(epoch):
        return UNSIGNED
    if not lease.spec.holder_identity or lease.spec.renew_time is None:
        return 0
    return round(lease.spec.renew_time.timestamp() * 1_000_000)
