"""What a server of S3 answers when it says no, or nothing, as a sentence with what to do: one for both of our clients."""

import re

from firesteel.adapters.storage.errors import Unusable

_ADVICE = {
    "NoSuchBucket": "there is no such bucket: make it, or correct the name",
    "InvalidAccessKeyId": "the access key is unknown there: set s3.access-key and s3.secret-key",
    "SignatureDoesNotMatch": "the secret key is wrong: set s3.access-key and s3.secret-key",
    "AccessDenied": "these credentials may not do this there: grant it, or set s3.access-key and s3.secret-key",
    "ExpiredToken": "the credentials have expired: renew them",
    "InvalidToken": "the session token is wrong: set fs.s3a.session.token",
    "PermanentRedirect": "the bucket is in another region: set s3.region",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set s3.region",
    "403": "these credentials may not do this there: grant it, or set s3.access-key and s3.secret-key",
}
_OF_HADOOP = re.compile(r"(?P<name>UnknownStore|AccessDenied)Exception\)?:? [`']?(?P<uri>s3a?://.+?)['`]?: ")
_CODE_OF_HADOOP = re.compile(r"\):(?P<code>\w+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")


def refused(uri: str, endpoint: str, code: str) -> Unusable | None:
    """The error for an answer that will be the same next time; None for any other. `endpoint` is empty for Amazon's own."""
    if code not in _ADVICE:
        return None
    return Unusable(f"{uri}: {_server(endpoint)} says {code}: {_ADVICE[code]}")


def unanswered(uri: str, endpoint: str, why: str) -> OSError:
    return OSError(f"{uri}: {_server(endpoint)} does not answer ({why}); is s3.endpoint right?")


def without_credentials(uri: str) -> Unusable:
    return Unusable(f"{uri}: there are no credentials: set s3.access-key and s3.secret-key")


def told_by_hadoop(text: str) -> str:
    """What S3A says no with, as a sentence with a way out; empty where `text`, Spark's own, is of something else."""
    found = _OF_HADOOP.search(text)
    if found is None:
        return ""
    if found["name"] == "UnknownStore":
        return f"{found['uri']}: {_ADVICE['NoSuchBucket']}"
    if "No AWS Credentials" in text:
        return str(without_credentials(found["uri"]))
    said = _CODE_OF_HADOOP.search(text, found.end())
    return f"{found['uri']}: {_ADVICE.get(said['code'] if said is not None else '', _ADVICE['403'])}"


def code_in(answer: str) -> str:
    """The code in an answer as S3 writes it; empty when it is none."""
    found = _CODE.search(answer)
    return found[1] if found is not None else ""


def _server(endpoint: str) -> str:
    return endpoint or "Amazon S3"
