"""Plain PySpark scripts: the `__main__` of a task process, with the attempt's session for their builders.

Runs in task processes. Pipelines need nothing of this.
"""
