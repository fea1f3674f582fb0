"""ResourceProfile: what a slot offers and what a region asks for."""

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

    @property
    def is_partial(self) -> bool:
        """Only one of the two is given; such a request is refused at submission."""
        return (self.cpu_cores > 0) != (self.memory_mib > 0)


UNSPECIFIED = ResourceProfile()
