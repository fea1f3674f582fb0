"""Users of the endpoint and what they may do: bearer tokens that stand for users with roles."""

import hashlib
import logging
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from firesteel.model.options import ConfigurationError
from firesteel.rest.errors import RestError

logger = logging.getLogger(__name__)


class Role(Enum):
    """Role that a route asks for. Any role lets its holder look at things."""

    VIEW = "view"
    SUBMIT = "submit"
    """Submit jobs, and end one's own."""
    OPERATE = "operate"
    """Cancel, stop and save anybody's jobs; shut the cluster down."""


class User(msgspec.Struct, frozen=True):
    """Somebody with a token. Nobody has a name where no users are configured."""

    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        return role is Role.VIEW or role in self.roles


ANYBODY = User("", frozenset(Role))
NOBODY = User("", frozenset())
"""Who has shown no token where a ticket does."""


class _UserEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of the users file; the token itself, or the SHA-256 of it in hex."""

    name: str
    roles: list[Role]
    token: str = ""
    sha256: str = ""


class _UsersFile(msgspec.Struct, forbid_unknown_fields=True):
    users: list[_UserEntry]


class Users:
    """Users by the hash of their token; comparing hashes tells nobody how far a guess was right."""

    def __init__(self, by_hash: Mapping[str, User] | None) -> None:
        self._by_hash = by_hash

    @property
    def are_anybody(self) -> bool:
        """Nobody has to say who he is."""
        return self._by_hash is None

    def identify(self, authorization: str | None) -> User:
        """The user of an Authorization header. Raises RestError 401."""
        if self._by_hash is None:
            return ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        user = self._by_hash.get(_hash(token.strip())) if scheme.lower() == "bearer" else None
        if user is None and scheme.lower() == "bearer" and token.strip():
            raise RestError(401, "That token is unknown here.")
        if user is None:
            raise RestError(401, "This cluster asks who you are: send the header `Authorization: Bearer TOKEN`.")
        return user


def load_users(path: str) -> Users:
    """Users of a YAML file; an empty path means that nobody has to say who he is. Raises ConfigurationError."""
    if not path:
        return Users(None)
    import yaml

    try:
        content = msgspec.convert(yaml.safe_load(Path(path).read_text(encoding="utf-8")), _UsersFile)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"the users file {path} can't be read: {error}") from None
    by_hash: dict[str, User] = {}
    for entry in content.users:
        if bool(entry.token) == bool(entry.sha256):
            raise ConfigurationError(f"the users file {path}: {entry.name} needs either a token or its sha256")
        key = entry.sha256.lower() or _hash(entry.token)
        if key in by_hash:
            raise ConfigurationError(f"the users file {path}: {entry.name} and {by_hash[key].name} have the same token")
        by_hash[key] = User(entry.name, frozenset(entry.roles))
    return Users(by_hash)


READING = ("GET", "HEAD")
"""Methods that browsers use for links and pictures; Flink's own dashboard cancels by one, from its script."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Origins:
    """Web pages that may call. A page of another origin could else use the browser of somebody who may.

    `local_only` is for an endpoint of this machine that asks nobody who he is: a page may have its own host's
    name lead here, so the name by which it was reached must be one of this machine's.
    """

    def __init__(self, allowed: str, *, local_only: bool = False) -> None:
        self._allowed = tuple(origin.strip() for origin in allowed.split(",") if origin.strip())
        self._local_only = local_only

    def check_host(self, host: str) -> None:
        """Raises RestError 403 for a name that is none of this machine's, where only these may lead here."""
        if self._local_only and _host_name(host) not in LOOPBACK:
            raise RestError(403, f"This endpoint is of this machine only, and not {host!r}: see rest.users-file.")

    def check(self, method: str, headers: Mapping[str, str], scheme: str, *, changes: bool = True) -> None:
        """Raises RestError 403 for a request that a page of a foreign origin makes; its links may lead here, but only
        to what changes nothing."""
        host = headers.get("host", "")
        self.check_host(host)
        origin = headers.get("origin")
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site") or (
            origin is not None and origin != f"{scheme}://{host}"
        )
        mode = headers.get("sec-fetch-mode")
        is_link = method in READING and mode == "navigate" and not changes
        if is_foreign and not is_link and not self.allowed(origin):
            raise RestError(403, "Web pages of other origins are refused: see web.access-control-allow-origin.")
        if changes and method in READING and mode not in (None, "cors"):
            raise RestError(403, "No link changes anything here: this is for programs.")

    def allowed(self, origin: str | None) -> str:
        """Value of Access-Control-Allow-Origin; empty for nothing."""
        if "*" in self._allowed:
            return "*"
        return origin if origin is not None and origin in self._allowed else ""


def _host_name(host: str) -> str | None:
    """Name of the host without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
