"""Sizes of the JVMs of a worker, so that together they stay within what the worker was given."""

import os
from typing import NamedTuple

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError

MIN_HEAP_MIB = 472
"""Least heap with which Spark starts (1.5 times what it reserves for itself)."""


class BackendSize(NamedTuple):
    heap_mib: int
    cores: int


def backend_size(config: Configuration, *, alone: bool = False) -> BackendSize:
    """Size of each JVM. `alone`: of one for a single attempt, beside a shared one. Raises ConfigurationError.

    `taskmanager.spark.heap` is for all JVMs of the worker: with `isolation: shared` one has it all, else there is one a
    slot at the most. Cores are divided with `slot` only: a job alone on its worker may use them all.
    """
    isolation, slots = config.get_option(options.SPARK_ISOLATION), config.get_option(options.NUMBER_OF_TASK_SLOTS)
    heap_mib, cores = config.get_option(options.SPARK_HEAP), worker_cores(config)
    if isolation == "shared":
        if heap_mib < MIN_HEAP_MIB:
            raise ConfigurationError(
                f"{options.SPARK_HEAP.key} is {heap_mib} MiB, and Spark starts with {MIN_HEAP_MIB} or more"
            )
        return BackendSize(max(MIN_HEAP_MIB, heap_mib // slots) if alone else heap_mib, cores)
    if heap_mib // slots < MIN_HEAP_MIB:
        raise ConfigurationError(
            f"with {options.SPARK_ISOLATION.key}: {isolation} each of {slots} slots has {heap_mib // slots} MiB "
            f"of heap, and Spark needs {MIN_HEAP_MIB}: set {options.SPARK_HEAP.key} to {MIN_HEAP_MIB * slots}m or more, "
            f"or {options.NUMBER_OF_TASK_SLOTS.key} to less"
        )
    return BackendSize(heap_mib // slots, max(1, cores // slots) if isolation == "slot" else cores)


def worker_cores(config: Configuration) -> int:
    """Number of whole cores the worker may use."""
    return max(1, round(float(config.get_option(options.TASK_CPU))) or os.cpu_count() or 1)


def task_memory_limit_mib(config: Configuration) -> int:
    """Memory that one attempt may hold outside of the JVM."""
    configured = config.get_option(options.TASK_MEMORY_LIMIT)
    if configured:
        return configured
    total_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return max(512, round(0.8 * (total_mib - config.get_option(options.SPARK_HEAP))))
