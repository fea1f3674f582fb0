"""What every message between endpoints is."""

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What endpoints send one another."""
