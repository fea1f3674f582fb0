"""Commands about jobs: hand one in, ask for it, follow or cancel it, see what it has printed, or plan it.

Of the cluster only what clients may ask. Nothing here starts a process of a cluster, but for the mini cluster of `run`.
"""
