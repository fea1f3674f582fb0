"""Where the workers of a cluster share what regions store for one another."""

import os

from firesteel.adapters.storage.errors import TargetRefused
from firesteel.adapters.storage.localdirectories import as_path
from firesteel.adapters.storage.schemes import authority_and_path, bucket_and_path, scheme_of
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError


def results_location(config: Configuration) -> str:
    """The location as Spark names it, without `/` at its end; empty when each worker has its own. Raises
    ConfigurationError."""
    given = config.get_option(options.RESULTS_DIR)
    if not given:
        return ""
    try:
        scheme = scheme_of(given)
        if scheme.ours != "local":
            parts = authority_and_path(given) if scheme.ours == "hdfs" else bucket_and_path(given)
            return f"{scheme.spark}://{'/'.join(parts)}"
    except TargetRefused as error:
        raise ConfigurationError(f"{options.RESULTS_DIR.key}: {error}") from None
    path = as_path(given)
    if not path.is_absolute():
        raise ConfigurationError(f"{options.RESULTS_DIR.key}: {given!r} is not absolute: all workers are to find it")
    return os.path.normpath(path)
