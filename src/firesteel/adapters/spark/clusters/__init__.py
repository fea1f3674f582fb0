"""The Spark that a worker was told to use where that is not one of its own in `local[N]`.

See README.md.
"""
