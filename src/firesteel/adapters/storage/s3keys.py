"""A bucket of S3, or of a server that speaks its protocol, as sinks need it.

boto3 does the requests: unlike obstore it copies, lists and gives up uploads in parts, and takes keys as they are, also
those that end with `/`, which Hadoop makes for directories.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from firesteel.adapters.storage.errors import TargetRefused, Unusable
from firesteel.adapters.storage.keys import Found
from firesteel.adapters.storage.objects import Conflict, Version
from firesteel.adapters.storage.s3answers import refused, unanswered, without_credentials
from firesteel.adapters.storage.s3settings import S3Access

LIBRARY = "boto3"
CONNECT_LIMIT_S, SILENCE_LIMIT_S, COPY_LIMIT_S = 3.0, 5.0, 60.0
"""Limits on making a connection, on silence of one that was made, and on that while the store copies."""
TRIES_MAX = 2
"""Times that the library sends a request: who needs more patience has it itself."""
CONNECTIONS_MAX = 32
DELETED_AT_ONCE = 1_000
"""Most keys in one request: S3's own limit."""
WHOLE_COPY_MAX_BYTES = 256 * 1024 * 1024
"""Objects up to this size are copied by one request, which so ends in time; larger ones in parts of this size."""
UPLOAD_PART_BYTES = 16 * 1024 * 1024
"""Files up to this size are uploaded by one request, larger ones in parts of this size."""
_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_GONE = ("NoSuchKey", "404", "NotFound", "NoSuchUpload")


class S3Keys:
    """`Keys` of one bucket."""

    def __init__(self, bucket: str, access: S3Access) -> None:
        """Raises TargetRefused when the library is not installed, or settings can't be."""
        if bool(access.access_key) != bool(access.secret_key):
            raise TargetRefused(f"s3://{bucket}: set both s3.access-key and s3.secret-key, or neither")
        self._bucket, self._access = bucket, access
        try:
            self._client, self._copying = _client(access, SILENCE_LIMIT_S), _client(access, COPY_LIMIT_S)
        except ImportError:
            raise TargetRefused(
                f"s3://{bucket} needs a library that is not installed: {sys.executable} -m pip install {LIBRARY}"
            ) from None

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def get(self, name: str) -> Version:
        with self._naming(name):
            found = self._client.get_object(Bucket=self._bucket, Key=name)
            return Version(found["Body"].read(), found["ETag"])

    def get_range(self, name: str, begin: int, end: int) -> bytes:
        with self._naming(name):
            found = self._client.get_object(Bucket=self._bucket, Key=name, Range=f"bytes={begin}-{end - 1}")
            return bytes(found["Body"].read())

    def put(self, name: str, data: bytes, after: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if after is None else {"IfMatch": after}
        try:
            with self._naming(name):
                return str(self._client.put_object(Bucket=self._bucket, Key=name, Body=data, **condition)["ETag"])
        except FileNotFoundError:
            raise Conflict(f"{self.uri(name)} is gone") from None

    def write(self, name: str, data: bytes) -> None:
        with self._naming(name):
            self._client.put_object(Bucket=self._bucket, Key=name, Body=data)

    def upload(self, name: str, source: Path) -> None:
        from boto3.s3.transfer import TransferConfig

        parts = TransferConfig(
            multipart_threshold=UPLOAD_PART_BYTES, multipart_chunksize=UPLOAD_PART_BYTES, use_threads=False
        )
        with self._naming(name), open(source, "rb") as file:
            self._client.upload_fileobj(file, self._bucket, name, Config=parts)

    def found(self, prefix: str, *, at_most: int = 0) -> Iterator[Found]:
        with self._naming(prefix):
            limit = {"MaxItems": at_most, "PageSize": min(at_most, 1_000)} if at_most else {}
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, PaginationConfig=limit
            )
            for page in pages:
                for each in page.get("Contents", ()):
                    yield Found(each["Key"], each["Size"])

    def steps(self, prefix: str) -> list[str]:
        with self._naming(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, Delimiter="/"
            )
            found = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]
            return [each.removeprefix(prefix).rstrip("/") for each in found]

    def copy(self, source: str, target: str, size_bytes: int, check: Callable[[], None]) -> None:
        origin = {"Bucket": self._bucket, "Key": source}
        with self._naming(source):
            if size_bytes <= WHOLE_COPY_MAX_BYTES:
                self._copying.copy_object(Bucket=self._bucket, Key=target, CopySource=origin)
            else:
                self._copy_parts(origin, target, check)

    def delete(self, names: Iterable[str]) -> None:
        given = list(names)
        for some in (given[begin : begin + DELETED_AT_ONCE] for begin in range(0, len(given), DELETED_AT_ONCE)):
            with self._naming(some[0]):
                doomed = {"Objects": [{"Key": name} for name in some], "Quiet": True}
                left = self._client.delete_objects(Bucket=self._bucket, Delete=doomed).get("Errors", ())
            if left:
                raise OSError(
                    f"{self.uri(left[0]['Key'])} was not deleted: {left[0].get('Message', left[0].get('Code'))}"
                )

    def abort_uploads(self, prefix: str, infix: str = "") -> None:
        with contextlib.suppress(Unusable), self._naming(prefix):  # who may not list them leaves them
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=prefix)
            begun = [(each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", ())]
            for key, upload in begun:
                if key.startswith(prefix) and infix in key:
                    with contextlib.suppress(FileNotFoundError), self._naming(key):
                        self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)

    def _copy_parts(self, origin: dict[str, str], target: str, check: Callable[[], None]) -> None:
        from boto3.s3.transfer import TransferConfig

        def copied(_: int) -> None:
            check()

        parts = TransferConfig(multipart_threshold=WHOLE_COPY_MAX_BYTES, multipart_chunksize=WHOLE_COPY_MAX_BYTES)
        self._copying.copy(origin, self._bucket, target, Config=parts, Callback=copied)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """The library's errors as OSErrors that name the URI."""
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            HTTPClientError,
            NoCredentialsError,
            PartialCredentialsError,
        )
        from botocore.exceptions import ConnectionError as NoConnection

        try:
            yield
        except ClientError as error:
            raise self._told(name, error.response) from None
        except (NoCredentialsError, PartialCredentialsError):
            raise without_credentials(self.uri(name)) from None
        except (HTTPClientError, NoConnection) as error:
            raise unanswered(self.uri(name), self._access.endpoint, _short(error)) from None
        except BotoCoreError as error:
            raise OSError(f"{self.uri(name)}: {_short(error)}") from None

    def _told(self, name: str, answer: dict[str, Any]) -> OSError:
        code, text = str(answer.get("Error", {}).get("Code", "")), str(answer.get("Error", {}).get("Message", ""))
        if code in _CONFLICTS:
            return Conflict(f"{self.uri(name)} has been written by somebody else")
        if code in _GONE:
            return FileNotFoundError(f"{self.uri(name)} is not there")
        known = refused(self.uri(name), self._access.endpoint, code)
        return known or OSError(f"{self.uri(name)}: {self._access.endpoint or 'Amazon S3'} says {code}: {text}")


@functools.lru_cache(maxsize=8)
def _client(access: S3Access, silence_limit_s: float) -> Any:
    import boto3
    from botocore.config import Config

    limits = Config(
        connect_timeout=CONNECT_LIMIT_S,
        read_timeout=silence_limit_s,
        retries={"mode": "standard", "total_max_attempts": TRIES_MAX},
        max_pool_connections=CONNECTIONS_MAX,
        s3={"addressing_style": "path" if access.path_style else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    given = {
        "endpoint_url": access.endpoint,
        "region_name": access.region,
        "aws_access_key_id": access.access_key,
        "aws_secret_access_key": access.secret_key,
        "aws_session_token": access.session_token,
    }
    return boto3.session.Session().client("s3", config=limits, **{name: text for name, text in given.items() if text})


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
