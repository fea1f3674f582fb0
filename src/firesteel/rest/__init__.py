"""Flink's REST API v1, and what is ours beside it, over a ClusterGateway."""
