"""The cluster, the master's process, and what there is none of."""

import platform
import time
from importlib.metadata import version

from firesteel.model import options
from firesteel.model.options import OPTIONS
from firesteel.model.secrets import redacted
from firesteel.model.states import JobStatus
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError
from firesteel.rest.schema import cluster as c

FLINK_VERSION = "2.3.0"
"""The version of Flink whose API this is: clients decide by it what they may ask."""

FIRESTEEL_VERSION = version("firesteel")


async def dashboard_configuration(call: Call) -> c.DashboardConfiguration:
    local, changes = time.localtime(), not call.services.read_only
    return c.DashboardConfiguration(
        refresh_interval=call.services.config.get_option(options.WEB_REFRESH_INTERVAL),
        timezone_name=local.tm_zone,
        timezone_offset=local.tm_gmtoff * 1_000,
        flink_version=FLINK_VERSION,
        flink_revision=f"firesteel {FIRESTEEL_VERSION}",
        features=c.Features(web_submit=changes, web_cancel=changes, web_rescale=False, web_history=not changes),
    )


async def overview(call: Call) -> c.ClusterOverviewWithVersion:
    found = await call.gateway.request_cluster_overview()
    ended = [found.jobs.get(status.value, 0) for status in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)]
    finished, cancelled, failed = ended
    return c.ClusterOverviewWithVersion(
        taskmanagers=found.task_managers,
        slots_total=found.slots_total,
        slots_available=found.slots_free,
        jobs_running=sum(found.jobs.values()) - sum(ended),
        jobs_finished=finished,
        jobs_cancelled=cancelled,
        jobs_failed=failed,
        flink_version=FLINK_VERSION,
        flink_commit=f"firesteel-{FIRESTEEL_VERSION}",
    )


async def leader(call: Call) -> c.ClusterLeader:
    """The leader, for balancers that want it only, and for people; every master answers for it."""
    if call.services.forwarding is None:
        return c.ClusterLeader(leads=True)
    known = call.services.forwarding.leadership
    if known.leader is None:
        return c.ClusterLeader(leads=False)
    record = known.leader.record
    return c.ClusterLeader(
        leads=known.leads,
        name=record.name,
        node=record.node,
        address=f"{record.host}:{record.port}",
        rest_address=record.rest,
        epoch=known.leader.epoch,
    )


async def masters(call: Call) -> c.MastersInfo:
    """The leader and those that watch it."""
    return c.MastersInfo(await leader(call), [c.StandbyInfo(name) for name in call.services.standbys()])


async def configuration(call: Call) -> list[c.ConfigurationInfoEntry]:
    """Options that are configured, and the defaults of all else, as a configuration file has them."""
    defaults = {key: option.default_text for key, option in OPTIONS.items()}
    values = redacted({**defaults, **call.services.config})
    return [c.ConfigurationInfoEntry(key, value) for key, value in values.items()]


async def environment(call: Call) -> c.EnvironmentInfo:
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return c.EnvironmentInfo(c.JvmInfo(name, platform.machine(), []), [])


async def no_profiles(call: Call) -> c.ProfilingInfoList:
    """No process is a JVM that Flink's profiler could be attached to."""
    return c.ProfilingInfoList()


async def no_datasets(call: Call) -> c.ClusterDataSetListResponseBody:
    """Stored results belong to their job: none outlives it."""
    return c.ClusterDataSetListResponseBody([])


async def shut_down(call: Call) -> c.Empty:
    if call.services.shut_down is None:
        raise RestError(409, "This cluster can't be shut down over REST: end its process.")
    call.services.shut_down()
    return c.Empty()
