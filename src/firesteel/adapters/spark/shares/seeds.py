"""Seeds that PySpark draws itself: all others in a plan are the user's, or drawn anew by Spark whenever it plans."""

import random


class _Drawing:
    """Stands for the module `random` where PySpark draws seeds."""

    def __init__(self) -> None:
        self.seeds: set[int] = set()

    def randint(self, lowest: int, highest: int) -> int:
        seed = random.randint(lowest, highest)
        self.seeds.add(seed)
        return seed


_DRAWING = _Drawing()


def drawn_seeds() -> set[int]:
    """Seeds that PySpark has drawn for who gave none, in this process since this was first called."""
    from pyspark.sql import dataframe
    from pyspark.sql.connect import dataframe as connect_dataframe
    from pyspark.sql.connect.functions import builtin

    for module, name in ((dataframe, "random"), (connect_dataframe, "random"), (builtin, "py_random")):
        setattr(module, name, _DRAWING)
    return _DRAWING.seeds
