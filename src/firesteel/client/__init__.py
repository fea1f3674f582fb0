"""Clients of a cluster on the network."""

import sys

# httpx imports its own command line when it can, and with that rich: half of the time that importing it takes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
