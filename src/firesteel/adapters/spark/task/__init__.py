"""Processes that have PySpark loaded: the fork server and its children, which run the user's code, and its failures told.

Each serves one assignment and may be killed at any time. Nothing of the worker's is imported here.
"""
