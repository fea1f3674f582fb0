"""Bodies of what a job reads and writes."""

import msgspec


class LineageColumn(msgspec.Struct, frozen=True):
    name: str
    type: str
    """As Spark writes it in SQL: `bigint`."""


class LineageInput(msgspec.Struct, frozen=True, kw_only=True):
    """A place that a source reads. -1: not known."""

    vertex: str
    function: str
    place: str
    """URI, path or table; empty where only its code knows."""
    rows: int = -1
    """Rows that the vertex has read in all, where this is all that it reads."""
    bytes: int = -1
    columns: list[LineageColumn] = []
    """Those of the place, as far as they are known: at most a thousand."""


class LineageOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A place that a sink has written. -1: not known."""

    vertex: str
    """Empty where the job's vertices are not known any more."""
    function: str
    place: str = ""
    """Target that readers see; empty while the sink has committed nothing."""
    mode: str = ""
    files: int = -1
    rows: int = -1
    bytes: int = -1
    columns: list[LineageColumn] = []
    """Those of its rows, as far as they are known: at most a thousand."""


class LineageInfo(msgspec.Struct, frozen=True):
    inputs: list[LineageInput]
    outputs: list[LineageOutput]
