"""What S3 says no with, or does not say: sentences with a way out, also of what Spark's client says."""

import socket
import threading
import time

import pytest

from firesteel.adapters.storage import s3reach
from firesteel.adapters.storage.s3answers import code_in, told_by_hadoop
from firesteel.adapters.storage.s3reach import check_answers, server_of

SDK = "software.amazon.awssdk.services.s3.model."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"(org.apache.hadoop.fs.s3a.UnknownStoreException) `s3a://absent/a b': getFileStatus on s3a://absent/a b: {SDK}"
            "NoSuchBucketException: The specified bucket does not exist (Service: S3, Status Code: 404, Request ID: x)",
            "s3a://absent/a b: there is no such bucket: make it, or correct the name",
        ),
        (
            f"(java.nio.file.AccessDeniedException) s3a://b/in: getFileStatus on s3a://b/in: {SDK}S3Exception: FORBIDDEN"
            " (Service: S3, Status Code: 403, Request ID: x):null",
            "s3a://b/in: these credentials may not do this there: grant it, or set s3.access-key and s3.secret-key",
        ),
        (
            f"Job aborted: java.nio.file.AccessDeniedException: s3a://b/in: open s3a://b/in: {SDK}S3Exception: no"
            " (Service: S3, Status Code: 403, Request ID: x):InvalidAccessKeyId",
            "s3a://b/in: the access key is unknown there: set s3.access-key and s3.secret-key",
        ),
        (
            "java.nio.file.AccessDeniedException: s3a://b/in: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS"
            " Credentials provided by X",
            "s3a://b/in: there are no credentials: set s3.access-key and s3.secret-key",
        ),
        ("(java.nio.file.AccessDeniedException) /data/in: not yours", ""),
        ("[PATH_NOT_FOUND] Path does not exist: s3a://b/in. SQLSTATE: 42K03", ""),
    ],
)
def test_hadoops_errors_have_a_way_out(text: str, sentence: str) -> None:
    assert told_by_hadoop(text) == sentence


def test_a_code_is_read_from_an_answer() -> None:
    assert code_in("403 Forbidden: <?xml?>\n<Error><Code>InvalidAccessKeyId</Code></Error>") == "InvalidAccessKeyId"
    assert code_in("error sending request") == ""


def test_the_server_is_that_of_the_bucket() -> None:
    all_of_it = {"fs.s3a.endpoint": "http://one:9000", "fs.s3a.bucket.b.endpoint": "http://two:9000"}
    assert server_of("s3a://a/x", all_of_it) == "http://one:9000"
    assert server_of("s3://b", all_of_it) == "http://two:9000"
    assert server_of("S3A://b/*", {**all_of_it, "fs.s3a.bucket.b.proxy.host": "p"}) == ""
    assert server_of("s3a://a/x", {"fs.s3a.endpoint": "host:1"}) == "https://host:1"
    for uri, hadoop in (
        ("/data", all_of_it),
        ("hdfs://one/x", all_of_it),
        ("s3a://a/x", {}),
        ("s3a://a/x", {"fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"}),
    ):
        assert server_of(uri, hadoop) == ""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_says_nothing_is_told_within_seconds(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3reach, "SILENCE_LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(
            OSError, match=r"^s3a://b/x: http.* does not answer \(.*timed out\); is s3.endpoint right\?$"
        ):
            check_answers("s3a://b/x", server)
        assert time.monotonic() - begun < 30
    with pytest.raises(OSError, match="Connection refused"):
        check_answers("s3a://b/x", server)


def test_any_answer_will_do() -> None:
    def answer() -> None:
        taken, _ = server.accept()
        with taken:
            taken.recv(1_000)
            taken.sendall(b"SSH-2.0-whoever\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer)
        answering.start()
        check_answers("s3a://b/x", f"http://127.0.0.1:{server.getsockname()[1]}")
        answering.join()
