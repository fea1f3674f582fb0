"""Workers."""

from firesteel.model import metrics
from firesteel.model.resources import ResourceProfile
from firesteel.model.views import TaskManagerView
from firesteel.rest.call import Call
from firesteel.rest.errors import not_found
from firesteel.rest.schema import cluster as c


async def task_managers(call: Call) -> c.TaskManagersInfo:
    return c.TaskManagersInfo([_info(worker) for worker in await call.gateway.list_task_managers()])


async def task_manager(call: Call) -> c.TaskManagerDetailsInfo:
    worker = await found_worker(call)
    info = _info(worker)
    slots = [c.SlotInfo(job_id=job_id, resource=_profile(profile)) for job_id, profile in worker.allocations]
    fields = {name: getattr(info, name) for name in info.__struct_fields__}
    return c.TaskManagerDetailsInfo(**fields, allocated_slots=slots, metrics=_memory(worker))


async def found_worker(call: Call) -> TaskManagerView:
    """The worker that the path names. Raises RestError 404."""
    wanted = call.path("taskmanagerid")
    for worker in await call.gateway.list_task_managers():
        if worker.resource_id == wanted:
            return worker
    raise not_found(f"Could not find TaskExecutor {wanted}.")


def _info(worker: TaskManagerView) -> c.TaskManagerInfo:
    hardware = worker.hardware
    return c.TaskManagerInfo(
        id=worker.resource_id,
        path=worker.address,
        time_since_last_heartbeat=worker.last_heartbeat_ms,
        slots_number=worker.slots,
        free_slots=worker.free_slots,
        assigned_tasks=worker.slots - worker.free_slots,
        total_resource=_profile(worker.profile, worker.slots),
        free_resource=_profile(worker.profile, worker.free_slots),
        hardware=c.HardwareDescription(
            cpu_cores=hardware.cpu_cores,
            physical_memory=hardware.physical_memory_bytes,
            free_memory=hardware.heap_bytes,
        ),
        labels=list(worker.profile.labels),
        memory_configuration=c.TaskExecutorMemoryConfiguration(task_heap=_known(hardware.heap_bytes)),
    )


def _memory(worker: TaskManagerView) -> c.TaskManagerMetricsInfo:
    told = {value.id: int(value.value) for value in worker.metrics}
    return c.TaskManagerMetricsInfo(
        heap_used=told.get(metrics.JVM_HEAP_USED.name),
        heap_committed=told.get(metrics.JVM_HEAP_COMMITTED.name),
        heap_max=told.get(metrics.JVM_HEAP_MAX.name),
    )


def _known(size_bytes: int) -> int | None:
    return size_bytes if size_bytes >= 0 else None


def _profile(profile: ResourceProfile, times: int = 1) -> c.ResourceProfileInfo:
    return c.ResourceProfileInfo(cpu_cores=profile.cpu_cores * times, task_heap_memory=profile.memory_mib * times)
