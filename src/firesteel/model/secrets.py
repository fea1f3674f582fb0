"""Which texts are nobody else's business: told by their key, or by what stands around them."""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

HIDDEN = "******"
T = TypeVar("T")

SECRET_KEYS = (
    r"(?i)password|passwd|secret|token|credential(?!s?[.-]?provider)|api-?key|access[.-]?key|account\.key|service-key"
    r"|auth-params|basic-auth|jaas\.config|http-headers|private-?key|encryption\.key|keystore\.key"
)
"""Regular expression, of Python's and of Java's, that is found in the keys whose values are nobody's business.

Spark looks for it in values, too, and tells its sessions none of them: a class that provides credentials is no secret.
"""
_SECRET_KEY = re.compile(SECRET_KEYS)
_SENSITIVE_PART = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|api_?key)=)[^&;\s]+|(://[^/:@\s]*:)[^/@\s]+(?=@)"
)
_WEBHOOK_KEY = re.compile(r"(?i)web-?_?hook")
_BEHIND_HOST = re.compile(r"(?i)(https?://[^/?#\s]*[/?#])\S+")
"""Chat services' webhooks have their secret in the path."""
_CONNECT = re.compile(r"(?i)(sc://[^;/\s]*(?:/[^;/\s]*){0,3};)(\S*)")
"""Address of a Connect server, then parameters: tokens, and headers of any name."""
_CONNECT_VALUE = re.compile(r"=[^;]*")
_BEARER = re.compile(r"(?i)(\bbearer )\S+")
_CUT_OFF = re.compile(r"(://[^/:@\s]*:)[^/@\s]+\Z")
"""What may be a password at the end of what is there: whether an @ follows is not known yet."""

_LITERAL = re.compile(r"""(["'])(?:(?!\1).)*(?:\1|$)""")
"""A text in quotes, or what is left of one on a line that was cut."""
_NAME = re.compile(r"""(["'])[\w.-]+\1""")
_AFTER_A_KEY = re.compile(r"\s*[:,\]]")


def is_secret(key: str) -> bool:
    """Whether the value of that key is shown to nobody: in views, logs and command lines."""
    return _SECRET_KEY.search(key) is not None


def redacted(values: Mapping[str, object]) -> dict[str, str]:
    """Texts by key, in order, with secrets hidden: those that their key names, and those inside addresses."""
    return {key: redacted_value(key, _text(values[key])) for key in sorted(values)}


def redacted_value(key: str, value: str) -> str:
    if is_secret(key):
        return HIDDEN
    if _WEBHOOK_KEY.search(key) is not None:
        value = _BEHIND_HOST.sub(rf"\1{HIDDEN}", value)
    value = _CONNECT.sub(lambda match: match[1] + _CONNECT_VALUE.sub(f"={HIDDEN}", match[2]), value)
    return _SENSITIVE_PART.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", value)


def redacted_values(values: Mapping[str, T]) -> dict[str, T | str]:
    """The values by key, but for secrets; others keep their type."""
    return {
        key: redacted_value(key, value) if isinstance(value, str) else HIDDEN if is_secret(key) else value
        for key, value in values.items()
    }


def redacted_text(text: str) -> str:
    """Text that a program has written, without what looks like a secret."""
    return _BEARER.sub(rf"\1{HIDDEN}", redacted_value("", text))


def redacted_part(whole: str, before: str) -> str:
    """What such a text has behind `before`, its beginning: a secret may begin in that, or go on when more is written."""
    shown, hidden = redacted_text(before), _CUT_OFF.sub(rf"\1{HIDDEN}", redacted_text(whole))
    pairs = enumerate(zip(shown, hidden, strict=False))
    common = next((place for place, (one, other) in pairs if one != other), min(len(shown), len(hidden)))
    return hidden[common:]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def redacted_code(text: str) -> str:
    """Lines of a program, with secrets hidden: on a line that names one, all texts in quotes but the names."""
    lines = [_LITERAL.sub(_unless_key, line) if is_secret(line) else line for line in text.split("\n")]
    return redacted_text("\n".join(lines))


def _unless_key(literal: re.Match[str]) -> str:
    """A name of a secret stays, where a value may follow."""
    is_key = _NAME.fullmatch(literal[0]) and is_secret(literal[0]) and _AFTER_A_KEY.match(literal.string, literal.end())
    return literal[0] if is_key else f"{literal[1]}{HIDDEN}{literal[1]}"
