"""ResourceProfile: what a slot offers and what a region asks for. HardwareDescription: what a worker runs on."""

import msgspec

from firesteel.model.ids import JobID
from firesteel.model.labels import Labels, labels_text


class ResourceProfile(msgspec.Struct, frozen=True, order=True, array_like=True):
    """CPU cores, memory (MiB) and labels. `UNSPECIFIED` asks for any slot of the default size."""

    cpu_cores: float = 0.0
    memory_mib: int = 0
    labels: Labels = ()
    """Of a slot, what its worker is called; of a request, what that must be called: all of them."""

    def __str__(self) -> str:
        size = f"{self.cpu_cores:g} cores and {self.memory_mib} MiB"
        if not self.labels:
            return size
        return self.named if self.size == UNSPECIFIED else f"{size}, {self.named}"

    @property
    def named(self) -> str:
        """Its labels, in words."""
        return f"label{'s' * (len(self.labels) > 1)} {labels_text(self.labels)}"

    def fits(self, request: "ResourceProfile") -> bool:
        """Whether a slot of this profile can hold `request`."""
        if self.cpu_cores < request.cpu_cores or self.memory_mib < request.memory_mib:
            return False
        return not request.labels or set(request.labels).issubset(self.labels)

    def covering(self, other: "ResourceProfile") -> "ResourceProfile":
        """The smallest profile that fits both."""
        cores, mebibytes = max(self.cpu_cores, other.cpu_cores), max(self.memory_mib, other.memory_mib)
        return ResourceProfile(cores, mebibytes).labelled(self.labels + other.labels)

    def labelled(self, labels: Labels) -> "ResourceProfile":
        """The same size with these labels, in any order, instead of its own."""
        return ResourceProfile(self.cpu_cores, self.memory_mib, tuple(sorted(dict.fromkeys(labels))))

    @property
    def size(self) -> "ResourceProfile":
        """The same without labels."""
        return ResourceProfile(self.cpu_cores, self.memory_mib) if self.labels else self

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
    backends: int = -1
    """Spark backends that attempts of one job can have there."""


UNSPECIFIED = ResourceProfile()


LOCAL_SPARK = "local"
"""Master of a Spark of which all is in a JVM of its worker, and that shows its pages."""


class SparkApplication(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker's Spark is on a cluster, or on a Connect server of others."""

    master: str
    """Address of the cluster's master, or of the server: without secrets."""
    application: str = ""
    """Id that the cluster knows it by; empty before there is one, and where nobody tells."""
    tracking_url: str = ""
    """Spark's own pages of it, while it runs."""
    executors: int = -1
    """Number of its executors; -1: nobody has counted them."""
    jobs: tuple[JobID, ...] = ()
    """Jobs that use it now, or that it was made for, where its worker tells that."""
    is_shared: bool = False
    """Whether any job on its worker may use it, where its worker tells that."""


class ResultsStorage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The storage in which a worker stores results for others."""

    where: str = ""
    """For people."""
    identity: str = ""
    """Equal for two workers that reach the same storage; empty when nobody has looked."""


UNTOLD_STORAGE = ResultsStorage()


UNKNOWN_HARDWARE = HardwareDescription()
