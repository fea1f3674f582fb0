"""Rows that an attempt leaves for its worker, which makes a blob of them."""

from pathlib import Path

BLOB_LOCATION = "blob:"
"""Marks a location that is a blob, by its SHA-256, among those that are directories."""


def staged_rows(directory: Path, sha256: str) -> Path:
    """File in which an attempt leaves rows for its worker."""
    return directory / f"{sha256}.arrow"


def is_blob(location: str) -> bool:
    return location.startswith(BLOB_LOCATION)
