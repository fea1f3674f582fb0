"""Write docs/options.md from the declarations in firesteel.model.options: `make docs`."""

from pathlib import Path
from typing import Any

from firesteel.model.options import OPTIONS, ConfigOption

PAGE = "docs/options.md"
HEAD = """\
# Options

Generated from `src/firesteel/model/options/` by `make docs`. Set them with `-D key=value` or in
`conf/config.yaml`, nested or flat; keys that start with `spark.` are handed to Spark as they are. Durations take
`ms`, `s`, `min`, `h` or `d` (`500 ms`, `10 s`), memory takes `k`, `m`, `g` or `t` (`512m`, `2g`) and counts in whole MiB, rounded up.

A `config.yaml` of Flink is taken as it is: keys are Flink's where the thing is the same, also under the names that Flink has
given up. A warning lists what of it means nothing here; a key that neither has is an error, with the nearest name.

| Key | Type | Default | Meaning |
|---|---|---|---|
"""


def render() -> str:
    """The whole page; options by key, since in which order they are declared depends on who imports what first."""
    return HEAD + "".join(row(OPTIONS[key]) for key in sorted(OPTIONS))


def row(option: ConfigOption[Any]) -> str:
    """One line of the table."""
    kind = option.kind if not option.choices else ", ".join(f"`{choice}`" for choice in option.choices)
    return f"| `{option.key}` | {kind} | {default_text(option)} | {option.description} |\n"


def default_text(option: ConfigOption[Any]) -> str:
    return f"`{option.default_text}`" if option.default_text else "none"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / PAGE).write_text(render())
