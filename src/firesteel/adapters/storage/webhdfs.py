"""HDFS by WebHDFS, its NameNode's own HTTP interface: no Java, no library but the HTTP client there is anyway.

Names are changed at the NameNode, in one step each, and last when it has answered. Bytes go to and from a DataNode that it
names. https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

import functools
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import httpcore

from firesteel.adapters.storage.errors import Unusable

CONNECT_LIMIT_S, SILENCE_LIMIT_S, CLOSING_LIMIT_S = 3.0, 10.0, 60.0
"""Limits on making a connection, on silence of one that was made, and on that while a DataNode closes a file that was uploaded: it
waits for those that have the copies."""
CHUNK_BYTES = 256 * 1024
"""So much of a file is in memory while it is uploaded."""
CONNECTIONS_MAX = 32
ELSEWHERE = ("StandbyException",)
"""What a NameNode says that is not the active one."""
BYTES = "application/octet-stream"
_IN_THE_WAY = ("FileAlreadyExistsException", "PathIsNotEmptyDirectoryException")
_BELOW_FILE = "(is not a directory)"
"""Ends what is said of a path below a file, as if it were not permitted."""
_ADVICE = {
    "AccessControlException": "grant it, or set HADOOP_USER_NAME to who may",
    "SecurityException": "it asks for a log-in (Kerberos), which firesteel does not speak",
    "AuthenticationException": "it asks for a log-in (Kerberos), which firesteel does not speak",
    "NSQuotaExceededException": "raise the quota, or remove files",
    "DSQuotaExceededException": "raise the quota, or remove files",
    "ParentNotDirectoryException": "name another path",
}


class Status(NamedTuple):
    """A file or directory."""

    name: str
    is_directory: bool
    size_bytes: int
    file_id: int
    """Stays through renames, and is never given again."""
    modified_ms: int
    """Since 1970, by the NameNode's clock. Of a directory: when names directly below it last changed."""


class WebHdfs:
    """One file system, by `hdfs://AUTHORITY`. `addresses`: URLs of its NameNodes, the active one and others. Thread-safe.

    Errors are OSErrors that name the URI, `Unusable` when HDFS says no for good; after one, what was asked for may have been
    done or not. Nothing is tried again, but at the next NameNode where one is not the active one.
    """

    def __init__(self, authority: str, addresses: Sequence[str], user: str) -> None:
        self._authority, self._addresses, self._user = authority, tuple(addresses), user
        self._active = 0
        self._pool = httpcore.ConnectionPool(max_connections=CONNECTIONS_MAX, keepalive_expiry=5.0)
        weakref.finalize(self, self._pool.close)  # one that nobody has any more leaves no connection open

    def uri(self, path: str) -> str:
        return f"hdfs://{self._authority}{path}"

    def status(self, path: str) -> Status | None:
        """None where there is nothing."""
        try:
            return _status(self._asked("GET", path, "GETFILESTATUS")["FileStatus"])
        except FileNotFoundError:
            return None

    def listed(self, path: str) -> list[Status]:
        """What is directly below a directory, sorted by name; of a file, itself without a name. Raises FileNotFoundError."""
        found = self._asked("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return sorted(map(_status, found))

    def make_directory(self, path: str) -> None:
        """Also those above it. Raises FileExistsError where there is a file."""
        self._asked("PUT", path, "MKDIRS")

    def rename(self, old: str, new: str, *, replaces: bool) -> None:
        """In one step. `replaces`: an empty directory or, with a file, another file; else nothing may be there.

        Raises FileNotFoundError, FileExistsError.
        """
        option = "OVERWRITE" if replaces else "NONE"
        self._asked("PUT", old, "RENAME", destination=new, renameoptions=option)

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Whether there was something. Raises FileExistsError for a directory that is not empty."""
        return bool(self._asked("DELETE", path, "DELETE", recursive=_flag(recursive))["boolean"])

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whatever file was there; also the directories above it."""
        self._sent("PUT", path, "CREATE", data, overwrite="true")

    def upload(self, path: str, source: Path) -> None:
        """The same from a file of this machine, of any size."""
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._sent("PUT", path, "CREATE", _Upload(file, size), overwrite="true")

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """From `offset` to its end, or so much of it. Raises FileNotFoundError."""
        more = {} if length is None else {"length": str(length)}
        return self._sent("GET", path, "OPEN", b"", offset=str(offset), **more)

    def _sent(self, method: str, path: str, operation: str, data: "bytes | _Upload", **more: str) -> bytes:
        """By a DataNode, which the NameNode names."""
        status, headers, answer = self._at_namenode(method, path, operation, more)
        if status != 307:
            self._check(path, self._addresses[self._active], status, answer)
            return answer
        where = headers.get("location", "")
        status, _, answer = self._exchanged(method, where, path, data, "does this host reach DataNodes by that name?")
        self._check(path, _host(where), status, answer)
        return answer

    def _asked(self, method: str, path: str, operation: str, **more: str) -> Any:
        status, _, answer = self._at_namenode(method, path, operation, more)
        where = self._addresses[self._active]
        self._check(path, where, status, answer)
        try:
            return json.loads(answer) if answer else {}
        except ValueError:
            raise Unusable(f"{self.uri(path)}: {where} is no WebHDFS: is fs.hdfs.webhdfs-address right?") from None

    def _at_namenode(
        self, method: str, path: str, operation: str, more: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Of several NameNodes the one that is active, or what the last one has said."""
        query = urlencode({"op": operation, "user.name": self._user, **more})
        told: OSError | None = None
        for _ in self._addresses:
            where = self._addresses[self._active]
            url = f"{where}/webhdfs/v1{quote(path)}?{query}"
            try:
                status, headers, answer = self._exchanged(method, url, path, b"", "is fs.hdfs.webhdfs-address right?")
                if _remote(answer)[0] not in ELSEWHERE:
                    return status, headers, answer
                told = OSError(f"{self.uri(path)}: {where} says it is not the active NameNode")
            except OSError as error:
                told = error
            self._active = (self._active + 1) % len(self._addresses)
        assert told is not None, "there is an address"
        raise told

    def _exchanged(
        self, method: str, url: str, path: str, data: "bytes | _Upload", question: str
    ) -> tuple[int, dict[str, str], bytes]:
        content: bytes | Iterator[bytes]
        if isinstance(data, _Upload):
            size, content, silence_s = data.size_bytes, data.chunks(), CLOSING_LIMIT_S
        else:
            size, content, silence_s = len(data), data, SILENCE_LIMIT_S
        limits = {
            "connect": CONNECT_LIMIT_S,
            "read": silence_s,
            "write": SILENCE_LIMIT_S,
            "pool": SILENCE_LIMIT_S,
        }
        headers = [("Host", urlsplit(url).netloc), ("Content-Length", str(size)), ("Content-Type", BYTES)]
        try:
            answer = self._pool.request(method, url, headers=headers, content=content, extensions={"timeout": limits})
        except (
            httpcore.NetworkError,
            httpcore.TimeoutException,
            httpcore.ProtocolError,
            httpcore.UnsupportedProtocol,
        ) as error:
            said = str(error).strip() or type(error).__name__
            raise OSError(f"{self.uri(path)}: {_host(url)} does not answer ({said}); {question}") from None
        found = {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in answer.headers}
        return answer.status, found, answer.content

    def _check(self, path: str, where: str, status: int, answer: bytes) -> None:
        if status < 300:
            return
        name, message = _remote(answer)
        told = f"{self.uri(path)}: {where} says {name}: {message}"
        if not name:
            raise (OSError if status >= 500 else Unusable)(self._strange(path, where, status))
        if name == "FileNotFoundException":
            raise FileNotFoundError(f"{self.uri(path)} is not there")
        if name in _IN_THE_WAY:
            raise FileExistsError(told)
        if name in _ADVICE:
            is_below_file = message.endswith(_BELOW_FILE)
            raise Unusable(f"{told}: {_ADVICE['ParentNotDirectoryException' if is_below_file else name]}")
        raise OSError(told)

    def _strange(self, path: str, where: str, status: int) -> str:
        if status == 401:
            return f"{self.uri(path)}: {where} {_ADVICE['AuthenticationException'].removeprefix('it ')}"
        return f"{self.uri(path)}: {where} answers {status}, and not as WebHDFS: is fs.hdfs.webhdfs-address right?"


class _Upload(NamedTuple):
    file: BinaryIO
    size_bytes: int

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.file.read(CHUNK_BYTES):
            yield chunk


def _status(found: Mapping[str, Any]) -> Status:
    return Status(
        name=found.get("pathSuffix", ""),
        is_directory=found["type"] == "DIRECTORY",
        size_bytes=int(found.get("length", 0)),
        file_id=int(found.get("fileId", 0)),
        modified_ms=int(found.get("modificationTime", 0)),
    )


def _remote(answer: bytes) -> tuple[str, str]:
    """Name and first line of the exception that an answer holds; both empty when it holds none."""
    if not answer.startswith(b'{"RemoteException"'):
        return "", ""
    try:
        found = json.loads(answer)["RemoteException"]
        return str(found["exception"]), str(found.get("message", "")).strip().splitlines()[0]
    except (ValueError, KeyError, TypeError, IndexError):
        return "", ""


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@functools.lru_cache(maxsize=8)
def web_hdfs(authority: str, addresses: tuple[str, ...], user: str) -> WebHdfs:
    """One client, with its connections, for all who go there."""
    return WebHdfs(authority, addresses, user)
