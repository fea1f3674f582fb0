"""Input splits: found once a source, drawn by its subtasks, and what a function is given to read them by.

Runs in task processes, which alone have access to the storage.
"""
