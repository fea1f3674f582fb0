"""Stored results: laid out for their consumers, written, read again in their order, or returned to the caller.

Runs in task processes. Rows are moved by Spark, and only those that are returned come to Python.
"""
