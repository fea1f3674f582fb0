"""Processes of a cluster in the foreground, for systemd, containers and Kubernetes: each until it is told to stop.

The only commands whose own process is a master or a worker.
"""
