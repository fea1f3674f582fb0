"""Sinks of pipelines: rows are staged by attempts, and made visible by a process of its own when the job has succeeded.

Nothing here decides whether to commit. `orphans` runs alone, after an embedded cluster was killed.
"""
