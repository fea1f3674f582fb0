"""Whether this process reaches the storage that workers share their results in, and whether it is the one of the others."""

import os
import platform
import tempfile
import uuid
from collections.abc import Mapping

from firesteel.adapters.storage.directories import Directories
from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.hdfsreach import check_listens
from firesteel.adapters.storage.resultslocation import results_location
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.adapters.storage.schemes import scheme_of
from firesteel.adapters.storage.serving import directories_at
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.model.resources import ResultsStorage

IDENTITY = "_firesteel_storage"
"""A file whose random content tells the storage from any other, also from one that has the same path on another host."""
_SAID = b"whoever reads this has reached what was written"


class ResultsUnusable(OSError):
    """Results can't be stored there, or not read. The text names process and place, and says what to do."""


def probe_results(config: Configuration, process: str, environment: Mapping[str, str]) -> ResultsStorage:
    """Write, look, read and delete where workers are to store results. Blocking, for a quarter of a minute at the most, for
    each NameNode.

    Workers that have nothing configured read one another's temporary directories: these are of one host, or container.
    Raises ResultsUnusable, or ConfigurationError. `process` is whose the probe is, for people.
    """
    where, option = results_location(config), options.RESULTS_DIR.key
    if not where:
        if not config.get_option(options.WORK_DIR):
            files_of = os.stat("/proc/self/ns/mnt").st_ino  # of processes that see the same files
            return ResultsStorage(f"{tempfile.gettempdir()} on {platform.node()}", f"{platform.node()} {files_of}")
        where, option = os.path.abspath(config.get_option(options.WORK_DIR)), options.WORK_DIR.key
    try:
        settings = hadoop_settings(config, environment)
        directories = directories_at(where, settings, patient=False)
        directories.sizes(where, (IDENTITY,))  # of a storage that hangs one request is enough
        identity = directories.create(where, IDENTITY, uuid.uuid4().hex.encode()).decode()
        _use(directories, where)
        if scheme_of(where).ours == "hdfs":
            check_listens(where, settings)
    except (OSError, TargetRefused) as error:
        told = str(error) if where.partition("://")[2] in str(error) else f"{where}: {error}"
        advice = f"mend that, or set {option} to what all workers reach"
        raise ResultsUnusable(f"{process} can't use {where} ({option}) for stored results: {told}; {advice}") from None
    return ResultsStorage(where, identity)


def _use(directories: Directories, where: str) -> None:
    """Do all that stored results take. Raises OSError."""
    name = f"_firesteel_probe-{uuid.uuid4().hex}"
    own = f"{where}/{name}"
    try:
        directories.create(own, "probe", _SAID)
        if directories.read(own, "probe") != _SAID or "probe" not in directories.sizes(own, ("probe",)):
            raise OSError("what was written is not what is read and listed: it can't be used")
    finally:
        directories.remove(own)
