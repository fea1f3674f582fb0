"""Whether a server of S3 answers at all, asked before Spark is: its client goes on asking a silent one for many minutes."""

import contextlib
import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from firesteel.adapters.storage.s3answers import unanswered
from firesteel.adapters.storage.s3settings import PREFIX, S3Access, is_amazons
from firesteel.adapters.storage.schemes import SCHEMES, scheme_name

SILENCE_LIMIT_S, TRIES_MAX = 5.0, 2
_PROXY = "fs.s3a.proxy.host"


def server_of(uri: str, hadoop: Mapping[str, str]) -> str:
    """URL of the server that S3A would ask, if it is one that can be tried: not Amazon's, and not behind a proxy."""
    scheme = SCHEMES.get(scheme_name(uri))
    if scheme is None or scheme.ours != "s3":
        return ""
    of_bucket = f"{PREFIX}bucket.{urlsplit(uri).netloc}."
    own = {PREFIX + key.removeprefix(of_bucket): text for key, text in hadoop.items() if key.startswith(of_bucket)}
    told = {**hadoop, **own}
    endpoint = S3Access.of(told).endpoint
    return "" if not endpoint or told.get(_PROXY) or is_amazons(endpoint) else endpoint


def check_answers(uri: str, server: str) -> None:
    """Any answer will do: what Spark may do there only Spark knows. Raises OSError that names the URI."""
    parts = urlsplit(server)
    for tried in range(1, TRIES_MAX + 1):
        with contextlib.closing(_connection(parts.scheme, parts.netloc)) as connection:
            try:
                connection.request("HEAD", "/")
                connection.getresponse()
            except OSError as error:
                if tried == TRIES_MAX:
                    raise unanswered(uri, server, str(error) or type(error).__name__) from None
            except http.client.HTTPException:
                return
            else:
                return


def _connection(scheme: str, netloc: str) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(netloc, timeout=SILENCE_LIMIT_S)
    unasked = ssl.create_default_context()  # whom to trust is Spark's to know: nothing is told to the server
    unasked.check_hostname, unasked.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(netloc, timeout=SILENCE_LIMIT_S, context=unasked)
