"""Flink's REST API v1, and what is ours beside it, over a ClusterGateway."""

import sys

# httpx, by which a standby hands requests on, imports its own command line when it can, and rich with that.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
