"""Labels: what workers are called, and what a job, a function or a queue asks a worker to be called."""

import re
from collections.abc import Iterable, Mapping

Labels = tuple[str, ...]
"""In the order of the alphabet, each once."""

LABELS_MAX = 16
"""Labels of one worker or one function."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""They are shown on terminals and in addresses."""


def labels_of(names: Iterable[str]) -> Labels:
    """The labels, put in order. Raises ValueError for what can't be one, and for too many."""
    labels = tuple(sorted(dict.fromkeys(names)))
    if len(labels) > LABELS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(", ".join(labels))
    return labels


def is_labels(given: Labels) -> bool:
    """Whether these are labels, in order."""
    try:
        return labels_of(given) == given
    except ValueError:
        return False


def parse_labels(text: str) -> Labels:
    """Labels of a text like `big, gpu`; none of an empty one. Raises ValueError."""
    return labels_of(filter(None, (part.strip() for part in text.split(","))))


def parse_queue_labels(text: str) -> dict[str, Labels]:
    """Labels by queue of a text like `etl=big, ml=big, ml=gpu`. Raises ValueError."""
    queues: dict[str, Labels] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([\w.-]+)\s*=\s*(\S+)", part)
        if match is None:
            raise ValueError(text)
        queues[match[1]] = labels_of((*queues.get(match[1], ()), match[2]))
    return queues


def labels_text(labels: Labels) -> str:
    return ", ".join(labels)


def queue_labels_text(queues: Mapping[str, Labels]) -> str:
    return ", ".join(f"{queue}={label}" for queue, labels in queues.items() for label in labels)
