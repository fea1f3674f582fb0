"""Parallelism above 1 changes no result: each subtask's plan is shown to Spark's planner before it runs."""
