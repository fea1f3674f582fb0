"""What serves which URI: for our own processes, and for Spark. One table."""

import difflib
import re
from collections.abc import Mapping

import msgspec

from firesteel.adapters.storage.errors import TargetRefused

HADOOP_VERSION = "3.5.0"
"""Version of the Hadoop client among PySpark's jars: what is added to it has to have the same."""
_SERVED = "served are paths, file:, s3://, s3a:// and hdfs://"
_PARTS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)


class Scheme(msgspec.Struct, frozen=True):
    """A kind of storage. `ours` serves our own processes: empty where nothing does yet."""

    name: str
    ours: str
    spark: str
    """The scheme by which Spark knows it."""
    packages: str = ""
    """Maven coordinates of what Spark needs beside its own jars."""


_S3 = Scheme("s3", "s3", "s3a", f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}")
SCHEMES: Mapping[str, Scheme] = {
    "": Scheme("", "local", "file"),
    "file": Scheme("file", "local", "file"),
    "s3": _S3,
    "s3a": _S3,
    "hdfs": Scheme("hdfs", "hdfs", "hdfs"),
    "gs": Scheme("gs", "", "gs", f"org.apache.hadoop:hadoop-gcp:{HADOOP_VERSION}"),
    "abfss": Scheme("abfss", "", "abfss", f"org.apache.hadoop:hadoop-azure:{HADOOP_VERSION}"),
}


def scheme_of(uri: str, *, instead: str = "") -> Scheme:
    """What serves the URI, in our own processes too. Raises TargetRefused; `instead`: what else may be done then."""
    name = scheme_name(uri)
    known = SCHEMES.get(name)
    if known is None:
        near = difflib.get_close_matches(name, [each for each in SCHEMES if each], n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]}://?" if near else ""
        raise TargetRefused(f"{uri}: {name}:// is no storage that firesteel knows{hint} ({_SERVED})")
    if not known.ours:
        raise TargetRefused(f"{uri}: firesteel does not write to {name}:// yet ({_SERVED}){instead}")
    return known


def scheme_name(uri: str) -> str:
    """The scheme in lower case; empty for a path."""
    parts = _PARTS.fullmatch(uri)
    return parts["scheme"].lower() if parts is not None else ""


def storage_of(uri: str) -> str:
    """The file system of HDFS, or the bucket, that it is in, as a URI without a path; empty for any other."""
    parts = _PARTS.fullmatch(uri)
    known = SCHEMES.get(parts["scheme"].lower()) if parts is not None else None
    if parts is None or known is None or known.ours in ("", "local") or not parts["authority"]:
        return ""
    return f"{known.ours}://{parts['authority']}"


def bucket_and_path(uri: str) -> tuple[str, str]:
    """Bucket, and the path in it without `/` at its ends; as Hadoop reads it, so nothing is unquoted.

    Raises TargetRefused.
    """
    parts = _PARTS.fullmatch(uri)
    assert parts is not None, "has a scheme"
    bucket = parts["authority"] or ""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", bucket) is None:
        raise TargetRefused(f"{uri} names no bucket: write {parts['scheme']}://BUCKET/PATH")
    return bucket, _path(uri, parts, f"a whole bucket: write to a path in it, {parts['scheme']}://{bucket}/PATH")


def authority_and_path(uri: str) -> tuple[str, str]:
    """NameNode or name service, and the path in it without `/` at its ends; as Hadoop reads it, so nothing is unquoted.

    Raises TargetRefused.
    """
    parts = _PARTS.fullmatch(uri)
    assert parts is not None, "has a scheme"
    authority = parts["authority"] or ""
    if re.fullmatch(r"[A-Za-z0-9._-]+(:\d+)?", authority) is None:
        raise TargetRefused(f"{uri} names no NameNode: write {parts['scheme']}://HOST:PORT/PATH")
    return authority, _path(
        uri, parts, f"a whole file system: write to a path in it, {parts['scheme']}://{authority}/PATH"
    )


def _path(uri: str, parts: re.Match[str], whole: str) -> str:
    """`whole` says what it is without one. Raises TargetRefused."""
    steps = [step for step in parts["path"].split("/") if step]
    if not steps:
        raise TargetRefused(f"{uri} is {whole}")
    if "." in steps or ".." in steps:
        raise TargetRefused(f"{uri} has a step . or ..: name the path without")
    return "/".join(steps)


def missing_scheme(text: str) -> str:
    """The scheme that Spark says in `text` it has no jars for; empty when it speaks of something else."""
    found = re.search(r'No FileSystem for scheme "?(\w+)"?', text)
    name = found[1].lower() if found is not None else ""
    if not name and (found := re.search(r"org\.apache\.hadoop\.fs\.(s3a|azurebfs|gs)\.\S+ not found", text)):
        name = {"azurebfs": "abfss"}.get(found[1], found[1])
    return name


def missing_jars(scheme: str, uri: str) -> str:
    """What to do when Spark has no jars for the scheme. `uri`: what wants it, where that is known."""
    packages = SCHEMES[scheme].packages if scheme in SCHEMES else ""
    advice = f"Spark has no jars for {scheme}://; name them: -D spark.jars.packages={packages or '...'}"
    return f"{uri}: {advice}" if uri else advice
