"""Scheduling at scale: the cores of a master and its workers, driven through their doors with real messages.

`jobs` makes the jobs, `cluster` carries messages between the cores and says whose processor time it took,
`stages` takes a job from submission through restarts, `suite` is the case with its budgets, and `flink` its peer.
"""
