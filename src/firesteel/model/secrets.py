"""Which texts are nobody else's business: told by their key."""

import re

_SECRET_KEY = re.compile(
    r"password|passwd|secret|token|credential|api-?key|access[.-]?key|account\.key|service-key|auth-params|basic-auth"
    r"|jaas\.config|http-headers|private-?key|encryption\.key|keystore\.key",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Whether the value of that key is shown to nobody: in views, logs and command lines."""
    return _SECRET_KEY.search(key) is not None
