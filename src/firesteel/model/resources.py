"""ResourceProfile: what a slot offers and what a region asks for. HardwareDescription: what a worker runs on."""

import msgspec


class ResourceProfile(msgspec.Struct, frozen=True, order=True, array_like=True):
    """CPU cores and memory (MiB). `UNSPECIFIED` asks for any slot of the default size."""

    cpu_cores: float = 0.0
    memory_mib: int = 0

    def __str__(self) -> str:
        return f"{self.cpu_cores:g} cores and {self.memory_mib} MiB"

    def fits(self, request: "ResourceProfile") -> bool:
        """Whether a slot of this profile can hold `request`."""
        return self.cpu_cores >= request.cpu_cores and self.memory_mib >= request.memory_mib

    def covering(self, other: "ResourceProfile") -> "ResourceProfile":
        """The smallest profile that fits both."""
        return ResourceProfile(max(self.cpu_cores, other.cpu_cores), max(self.memory_mib, other.memory_mib))

    @property
    def is_partial(self) -> bool:
        """Only one of the two is given; such a request is refused at submission."""
        return (self.cpu_cores > 0) != (self.memory_mib > 0)


class HardwareDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's machine, and what of it the worker's Spark takes. -1: not known."""

    cpu_cores: int = -1
    physical_memory_bytes: int = -1
    heap_bytes: int = -1
    """Heap of all its Spark backends together."""


UNSPECIFIED = ResourceProfile()


class ResultsStorage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The storage in which a worker stores results for others."""

    where: str = ""
    """For people."""
    identity: str = ""
    """Equal for two workers that reach the same storage; empty when nobody has looked."""


UNTOLD_STORAGE = ResultsStorage()


UNKNOWN_HARDWARE = HardwareDescription()
