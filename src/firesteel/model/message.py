"""The base of every message between endpoints."""

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A message from one endpoint to another."""
