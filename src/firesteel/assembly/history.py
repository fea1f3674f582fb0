"""The archive of ended jobs that the configuration names."""

import os
from pathlib import Path

from firesteel.adapters.history.archive import History, HistoryArchive, NoHistory
from firesteel.adapters.history.places import archive_files
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.model import options
from firesteel.model.options import Configuration
from firesteel.runtime.services import Clock


def configured_history(config: Configuration, clock: Clock, work_dir: Path) -> History:
    """Nothing is archived where no directory is configured. Raises ConfigurationError."""
    uri = config.get_option(options.ARCHIVE_DIR)
    if not uri:
        return NoHistory()
    files = archive_files(options.ARCHIVE_DIR.key, uri, hadoop_settings(config, os.environ), work_dir / "history")
    return HistoryArchive(
        files,
        config.get_option(options.CLUSTER_ID),
        clock,
        config.get_option(options.ARCHIVE_LOGS_MAX_SIZE) << 20,
    )
