"""Query parameters: parsers that raise ValueError for what does not fit."""

import msgspec


def natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(text)
    return int(text)


def labels(text: str) -> frozenset[tuple[str, str]]:
    pairs = [part.split(":") for part in text.split(",") if part]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise ValueError(text)
    return frozenset((key, value) for key, value in pairs)


def stream(text: str) -> str:
    if text not in ("stdout", "stderr"):
        raise ValueError(text)
    return text


def whole(text: str) -> int:
    if len(text) > 16:
        raise ValueError(text)
    return int(text)


def pairs(text: str) -> dict[str, str]:
    """A JSON object of texts."""
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise ValueError(text) from error
