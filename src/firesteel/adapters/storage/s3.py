"""Objects in a bucket of S3, or of a server that speaks its protocol and has conditional writes."""

import contextlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firesteel.adapters.storage.objects import Conflict, Listed, Version
from firesteel.adapters.storage.s3answers import code_in, refused, unanswered, without_credentials

if TYPE_CHECKING:
    from obstore.store import S3Store

LIBRARY = "obstore"

REQUEST_LIMIT_S, RETRIES_MAX = 10, 3
"""Limit on a small request, and how often it is sent again; together no longer than twice the limit."""

SILENCE_LIMIT_S = 30
"""Limit on silence of a connection that carries a file, which as a whole may take its time."""

FILE_LIMIT_S = 3_600
_NO_ANSWER = "error sending request"
"""The library's words for a server that can't be connected to, or says nothing."""
_ROLE = "http://169.254.169.254/"
"""Where a machine of Amazon's is asked for the credentials of its role, when nothing else names any."""


class NotInstalled(ImportError):
    """A library that this needs is not among those that are always installed."""


class S3Objects:
    """`Objects` below `prefix` in `bucket`; what `settings` do not say, the environment does (`AWS_*`)."""

    def __init__(self, bucket: str, prefix: str, settings: dict[str, str]) -> None:
        """Raises NotInstalled, or ValueError for settings that can't be."""
        try:
            import obstore
            from obstore.exceptions import BaseError
        except ImportError:
            raise NotInstalled(
                f"storage in s3:// needs a library that is not installed: {sys.executable} -m pip install {LIBRARY}"
            ) from None
        self._obstore, self._error = obstore, BaseError
        self._url, self._prefix = f"s3://{bucket}/{prefix}", prefix
        self._endpoint = settings.get("endpoint", "")
        try:
            self._store = _store(bucket, settings, timeout=timedelta(seconds=REQUEST_LIMIT_S))
            self._files = _store(
                bucket,
                settings,
                timeout=timedelta(seconds=FILE_LIMIT_S),
                read_timeout=timedelta(seconds=SILENCE_LIMIT_S),
            )
        except BaseError as error:
            raise ValueError(f"{self._url}: {_first_line(error)}") from None

    def __str__(self) -> str:
        return self._url

    def get(self, name: str) -> Version:
        with self._naming(name):
            found = self._obstore.get(self._store, self._prefix + name)
            return Version(bytes(found.bytes()), _tag(found.meta))

    def put(self, name: str, data: bytes, after: str | None) -> str:
        with self._naming(name):
            mode: Any = "create" if after is None else {"e_tag": after}
            return _tag(self._obstore.put(self._store, self._prefix + name, data, mode=mode, use_multipart=False))

    def files(self, prefix: str = "") -> list[str]:
        with self._naming(prefix):
            whole = self._prefix + prefix
            found = self._obstore.list_with_delimiter(self._store, whole)
            return sorted(each["path"].removeprefix(whole) for each in found["objects"])

    def has(self, name: str) -> bool:
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            self._obstore.head(self._store, self._prefix + name)
            return True
        return False

    def listed(self, prefix: str) -> Iterator[Listed]:
        with self._naming(prefix):
            for chunk in self._obstore.list(self._store, self._prefix + prefix):
                for each in chunk:
                    name = each["path"].removeprefix(self._prefix)
                    yield Listed(name, each["size"], int(each["last_modified"].timestamp() * 1000))

    def upload(self, name: str, source: Path) -> None:
        with self._naming(name):
            self._obstore.put(self._files, self._prefix + name, source)

    def download(self, name: str, target: Path) -> None:
        with self._naming(name), open(target, "wb") as file:
            for chunk in self._obstore.get(self._files, self._prefix + name):
                file.write(chunk)

    def delete(self, *names: str) -> None:
        for name in names:
            with self._naming(name), contextlib.suppress(FileNotFoundError):
                self._obstore.delete(self._store, self._prefix + name)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """The library's errors as OSErrors that name the object."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise Conflict(f"{self._url}{name} has been written by somebody else") from None
        except FileNotFoundError:
            raise FileNotFoundError(f"{self._url}{name} is not there") from None
        except self._error as error:
            raise self._told(f"{self._url}{name}", error) from None

    def _told(self, uri: str, error: Exception) -> OSError:
        if known := refused(uri, self._endpoint, code_in(str(error))):
            return known
        if _ROLE in str(error):
            return without_credentials(uri)
        if _NO_ANSWER in str(error):
            return unanswered(uri, self._endpoint, _NO_ANSWER)
        return OSError(f"{uri}: {_first_line(error)}")


def _store(bucket: str, settings: dict[str, str], **limits: timedelta) -> "S3Store":
    from obstore.store import S3Store

    named: Any = settings
    options: Any = {"allow_http": True, "connect_timeout": timedelta(seconds=REQUEST_LIMIT_S), **limits}
    return S3Store(
        bucket,
        config=named,
        client_options=options,
        retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=REQUEST_LIMIT_S)},
    )


def _tag(of: Any) -> str:
    tag: str | None = of["e_tag"]
    if not tag:
        raise OSError("the store gives its objects no ETag: it can't be used")
    return tag


def _first_line(error: Exception) -> str:
    """The first line of a text that goes on with how the error looks inside."""
    return str(error).strip().splitlines()[0]
