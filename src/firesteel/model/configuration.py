"""An option, and a configuration of options. Import these from `model.options`, which declares the options."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from firesteel.model.labels import labels_text, parse_labels, parse_queue_labels, queue_labels_text
from firesteel.model.streams import AVAILABLE_NOW

__all__ = [
    "OPTIONS",
    "ConfigOption",
    "Configuration",
    "ConfigurationError",
    "is_known",
    "option_of",
    "parse_duration_ms",
    "parse_memory_mib",
    "parse_ports",
    "parse_queue_slots",
]

T = TypeVar("T")
NO_ALIASES: Mapping[str, str] = {}


class ConfigurationError(ValueError):
    """The user's fault: an unknown key or a value that does not fit. The text says what would."""


class ConfigOption(Generic[T]):
    """One option. `kind` is one of str, name, int, port, float, bool, duration (in ms), memory (in MiB), slots (by queue), trigger,
    ports, labels, queue labels.

    Of `choices`, which are of kind str, case does not matter; `aliases` are other words for them, in lower case. With
    aliases and no choices, any other text is a value too. What is written under `deprecated_key` counts as long as
    nothing is under `key`. A number alone is in `bare_unit`: where Flink's option is a plain number, in Flink's unit.
    `minimum` is the least that an int or a float may be; None where it goes with other options, or there is none.
    """

    def __init__(
        self,
        key: str,
        kind: str,
        default: T,
        description: str,
        choices: tuple[str, ...] = (),
        *,
        aliases: Mapping[str, str] = NO_ALIASES,
        deprecated_key: str = "",
        bare_unit: str = "",
        minimum: int | None = 0,
    ) -> None:
        assert kind in _PARSERS, f"unknown option type {kind}"
        assert key not in OPTIONS, f"option {key} is declared twice"
        self.key, self.kind, self.default, self.description, self.choices = key, kind, default, description, choices
        self.aliases, self.deprecated_key, self.bare_unit = aliases, deprecated_key, bare_unit
        self.minimum = minimum if kind in ("int", "float") else None
        self._spellings = {choice.lower(): choice for choice in choices} | dict(aliases)
        OPTIONS[key] = self
        if deprecated_key:
            DEPRECATED_KEYS[deprecated_key] = key

    def parse(self, text: str) -> T:
        """The value that `text` means. Raises ConfigurationError naming key, type and an example."""
        given = str(text).strip()
        try:
            value = _PARSERS[self.kind](given + self.bare_unit if given.isdecimal() else given)
        except ValueError:
            kind = _KINDS.get(self.kind, f"a {self.kind}")
            raise ConfigurationError(f"{self.key}: {text!r} is not {kind} ({_EXAMPLES[self.kind]})") from None
        if self.minimum is not None and value < self.minimum:
            raise ConfigurationError(f"{self.key}: it has to be at least {self.minimum}, not {given}")
        if self.choices:
            value = self._spellings.get(value.lower())
            if value is None:
                raise ConfigurationError(f"{self.key}: {text!r} is none of {', '.join(self.choices)}")
        elif self.aliases:
            value = self.aliases.get(value.lower(), value)
        return value  # type: ignore[no-any-return]

    @property
    def default_text(self) -> str:
        """The default as one would write it in a configuration file, with its unit: `parse` gives it back."""
        return _TEXTS.get(self.kind, str)(self.default)


OPTIONS: dict[str, ConfigOption[Any]] = {}
JOB_PREFIXES = (
    "execution.batch.",
    "execution.checkpointing.",
    "execution.on",
    "execution.state-recovery.",
    "execution.streaming.",
    "job.",
    "jobmanager.execution.",
    "pipeline.",
    "python.",
    "restart-strategy.",
    "spark.",
)
"""Beginnings of the keys of options that travel with a job."""
PLACES_OF_SPARK = ("spark.master", "spark.remote")
"""Say where Spark is, which workers say: no job can."""
HANDED_ON = ("spark.", "fs.s3a.")
"""Beginnings of the keys that are Spark's and Hadoop's: not ours to check."""
DEPRECATED_KEYS: dict[str, str] = {}
"""Keys by those that they have replaced."""


class Configuration(Mapping[str, str]):
    """Immutable texts by key, checked at construction: every key is an option, or is handed on."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        given = {key: str(value) for key, value in (values or {}).items()}
        renamed = {DEPRECATED_KEYS[key]: value for key, value in given.items() if key in DEPRECATED_KEYS}
        self._values = renamed | {key: value for key, value in given.items() if key not in DEPRECATED_KEYS}
        for key, value in self._values.items():
            if not key.startswith(HANDED_ON):
                option_of(key).parse(value)

    def get_option(self, option: ConfigOption[T]) -> T:
        """The option's value here, else its default."""
        text = self._values.get(option.key)
        return option.default if text is None else option.parse(text)

    def merged(self, other: Mapping[str, str]) -> "Configuration":
        """This configuration with `other` on top."""
        return Configuration({**self._values, **Configuration(other)})

    def spark(self) -> dict[str, str]:
        """The keys that are Spark's."""
        return {key: value for key, value in self._values.items() if key.startswith("spark.")}

    def of_job(self) -> dict[str, str]:
        """Values that can be said for one job. All else is about the process that was given it."""
        travels = {key: value for key, value in self._values.items() if key.startswith(JOB_PREFIXES)}
        return {key: value for key, value in travels.items() if key not in PLACES_OF_SPARK}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def is_known(key: str) -> bool:
    """Whether an option has, or had, this key."""
    return key in OPTIONS or key in DEPRECATED_KEYS


def option_of(key: str) -> ConfigOption[Any]:
    """The option of that key. Raises ConfigurationError with the nearest name."""
    if key in OPTIONS:
        return OPTIONS[key]
    raise unknown_key(key, OPTIONS)


def unknown_key(key: str, names: Iterable[str]) -> ConfigurationError:
    """The error for an unknown key, with the nearest of `names`."""
    near = difflib.get_close_matches(key, list(names), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return ConfigurationError(f"unknown configuration key {key!r}{hint}")


_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
"""Pattern of any number that somebody means; it fits wherever it goes."""


def _units(*units: tuple[str, float]) -> dict[str, float]:
    """Sizes of units by each of their names, which are parted by spaces."""
    return {name: size for names, size in units for name in names.split()}


_MILLISECONDS = _units(
    ("ms milli millis millisecond milliseconds", 1),
    ("s sec secs second seconds", 1_000),
    ("min m minute minutes", 60_000),
    ("h hour hours", 3_600_000),
    ("d day days", 86_400_000),
)
_MEBIBYTES = _units(
    ("b byte bytes", 1 / 1024 / 1024),
    ("k kb kibibytes", 1 / 1024),
    ("m mb mebibytes", 1),
    ("g gb gibibytes", 1024),
    ("t tb tebibytes", 1024 * 1024),
)
"""The names are Flink's."""


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a text like `500 ms`, `10 s` or `5 min`; a bare number is milliseconds. Raises ValueError."""
    return round(_in_units(text, _MILLISECONDS, "ms"))


def parse_memory_mib(text: str) -> int:
    """MiB of a text like `512m` or `2g`; a bare number is MiB, and a part of one is one. Raises ValueError."""
    return math.ceil(_in_units(text, _MEBIBYTES, "m"))


def _in_units(text: str, units: Mapping[str, float], bare: str) -> float:
    match = re.fullmatch(rf"({_NUMBER})\s*([a-z]*)", text.lower())
    if match is None or (match[2] and match[2] not in units):
        raise ValueError(text)
    return float(match[1]) * units[match[2] or bare]


def duration_text(milliseconds: int) -> str:
    """The time in the largest unit that leaves no remainder."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def memory_text(mebibytes: int) -> str:
    """The size in GiB where that is a whole number."""
    return f"{mebibytes // 1024}g" if mebibytes and mebibytes % 1024 == 0 else f"{mebibytes}m"


def _queue_slots_text(slots: Mapping[str, int]) -> str:
    return ", ".join(f"{queue}={count}" for queue, count in slots.items())


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def parse_trigger_ms(text: str) -> int:
    """Milliseconds between the starts of two batches, 0 for none; -1 for `available-now`. Raises ValueError."""
    return AVAILABLE_NOW if text.lower().replace(" ", "-") == "available-now" else parse_duration_ms(text)


def _trigger_text(trigger_ms: int) -> str:
    return "available-now" if trigger_ms == AVAILABLE_NOW else duration_text(trigger_ms)


def parse_queue_slots(text: str) -> dict[str, int]:
    """Slots by queue of a text like `etl=8, adhoc=2`. Raises ValueError."""
    queues: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([\w.-]+)\s*=\s*([1-9]\d*)", part)
        if match is None or match[1] in queues:
            raise ValueError(text)
        queues[match[1]] = int(match[2])
    return queues


def _int(text: str) -> int:
    if len(text) > 19 or abs(int(text)) >= 1 << 63:
        raise ValueError(text)
    return int(text)


def _port(text: str) -> int:
    if not 0 <= int(text) <= 65_535:
        raise ValueError(text)
    return int(text)


def parse_ports(text: str) -> tuple[int, ...]:
    """Ports of a text like `9249` or `9250-9260`; none of an empty one. Raises ValueError."""
    if not text:
        return ()
    first, is_range, last = text.partition("-")
    ports = range(_port(first), _port(last if is_range else first) + 1)
    if not ports:
        raise ValueError(text)
    return tuple(ports)


def _ports_text(ports: tuple[int, ...]) -> str:
    return "-".join(map(str, (ports[0], ports[-1])[: len(ports)])) if ports else ""


_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "name": lambda text: text.removeprefix("/"),
    "int": _int,
    "port": _port,
    "float": float,
    "bool": _bool,
    "duration": parse_duration_ms,
    "memory": parse_memory_mib,
    "slots": parse_queue_slots,
    "trigger": parse_trigger_ms,
    "ports": parse_ports,
    "labels": parse_labels,
    "queue labels": parse_queue_labels,
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: str(value).lower(),
    "duration": duration_text,
    "memory": memory_text,
    "slots": _queue_slots_text,
    "trigger": _trigger_text,
    "ports": _ports_text,
    "labels": labels_text,
    "queue labels": queue_labels_text,
}
"""Functions that write values as texts, by type; others are written as they are."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "a truth value",
    "memory": "a size",
    "ports": "a range of ports",
    "slots": "a list of slots",
    "labels": "a list of labels",
    "queue labels": "a list of labels by queue",
}
_EXAMPLES = {
    "str": "any text",
    "name": "any text",
    "int": "like 4",
    "port": "a number up to 65535",
    "float": "like 1.5",
    "bool": "true or false",
    "duration": "like 500 ms, 10 s or 5 min",
    "memory": "like 512m or 2g",
    "ports": "like 9249 or 9250-9260",
    "slots": "like etl=8, adhoc=2, each queue once and with at least one slot",
    "trigger": "like 500 ms or 10 s, or available-now",
    "labels": "like big, or big, gpu: letters, digits and . _ -",
    "queue labels": "like etl=big, ml=big, ml=gpu",
}
