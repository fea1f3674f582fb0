"""Write docs/options.md from the declarations in firesteel.model.options: `make docs`."""

from pathlib import Path
from typing import Any

from firesteel.model.options import OPTIONS, ConfigOption

PAGE = "docs/options.md"
HEAD = """\
# Options

Generated from `src/firesteel/model/options.py` by `make docs`. Set them with `-D key=value` or in
`conf/config.yaml`; keys that start with `spark.` are handed to Spark as they are. Durations take
`ms`, `s`, `min`, `h` or `d` (`500 ms`, `10 s`), memory takes `k`, `m`, `g` or `t` (`512m`, `2g`).

| Key | Type | Default | Meaning |
|---|---|---|---|
"""
DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
MIB_PER_GIB = 1024


def render() -> str:
    """The whole page; options in the order of their declaration."""
    return HEAD + "".join(row(option) for option in OPTIONS.values())


def row(option: ConfigOption[Any]) -> str:
    """One line of the table."""
    kind = option.kind if not option.choices else ", ".join(f"`{choice}`" for choice in option.choices)
    return f"| `{option.key}` | {kind} | {default_text(option)} | {option.description} |\n"


def default_text(option: ConfigOption[Any]) -> str:
    """The default as one would write it in a configuration file."""
    match option.kind:
        case "duration":
            return f"`{duration_text(option.default)}`"
        case "memory":
            return f"`{memory_text(option.default)}`"
        case "bool":
            return f"`{str(option.default).lower()}`"
        case _:
            return f"`{option.default}`" if str(option.default) else "none"


def duration_text(milliseconds: int) -> str:
    """In the largest unit that leaves no remainder."""
    for size, unit in DURATION_UNITS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def memory_text(mebibytes: int) -> str:
    """In GiB where that is a whole number."""
    return f"{mebibytes // MIB_PER_GIB}g" if mebibytes and mebibytes % MIB_PER_GIB == 0 else f"{mebibytes}m"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / PAGE).write_text(render())
