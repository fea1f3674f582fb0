"""Random bodies of functions over random names, for the property that shares give what the whole gives.

A body is made anew from its number whenever it is called, and decides by the columns it finds: the same on all rows and on
each share. Names are taken from few, so that columns, aliases of frames, fields of structs and views are called alike.
"""

import random
from collections.abc import Callable
from typing import Any

A = "k int, v int, m int, event struct<k: int, id: int, v: int>, id bigint, s string"
B = "k bigint, w int, event string, m int"
NAMES = ("k", "K", "v", "m", "id", "event", "event_id", "g", "a b", "rand(1)", "count", "x.y", "select", "ä`", "V")
JOINS = ("inner", "left", "right", "full", "left_semi", "left_anti")
AGGREGATES = ("sum", "min", "max", "count")


class Body:
    """`body(spark, a, b)` gives a frame. Whatever it is, the same number gives the same."""

    def __init__(self, number: int, *, steps_max: int = 5) -> None:
        self.number, self._steps_max = number, steps_max
        self.story: list[str] = []

    def __call__(self, spark: Any, a: Any, b: Any) -> Any:
        self._choose = random.Random(self.number)
        self.story = []
        self._spark, self._b, self._first = spark, b, a
        frame = a
        for _ in range(self._choose.randint(1, self._steps_max)):
            step: Callable[[Body, Any], Any] = self._choose.choice(_STEPS)
            self.story.append(step.__name__)
            frame = step(self, frame)
        return frame

    # ── what the steps choose from ───────────────────────────────────────────────────────────────────────
    def name(self) -> str:
        return self._choose.choice(NAMES)

    def column(self, frame: Any) -> str:
        return str(self._choose.choice(frame.columns or ["none"]))

    def columns(self, frame: Any, most: int = 3) -> list[str]:
        if not frame.columns:
            return ["none"]
        return self._choose.sample(frame.columns, self._choose.randint(1, min(most, len(frame.columns))))

    def spelled(self, name: str) -> str:
        """A name as text: quoted, and at times in another case."""
        text = name.swapcase() if self._choose.random() < 0.2 else name
        return "`" + text.replace("`", "``") + "`"

    def reference(self, frame: Any, name: str) -> Any:
        """A column of `frame`: by its name, through the frame, or as SQL text."""
        from pyspark.sql import functions as F

        match self._choose.randrange(4):
            case 0:
                return frame[self.spelled(name)]
            case 1:
                return F.expr(self.spelled(name))
            case 2 if name == "event":
                return F.col(f"event.{self._choose.choice(('k', 'id', 'v'))}")
            case _:
                return F.col(self.spelled(name))

    def total(self, name: str) -> Any:
        from pyspark.sql import functions as F

        how, text = self._choose.choice(AGGREGATES), self.spelled(name)
        match self._choose.randrange(4):
            case 0:
                return F.expr(f"{how}/**/({text})")
            case 1:
                return F.expr(f"IDENTIFIER('{how[:2]}' || '{how[2:]}')({text})")
            case _:
                return getattr(F, how)(text)

    def on(self, left: Any, right: Any) -> Any:
        mine, theirs = self.column(left), self.column(right)
        if mine == theirs and self._choose.random() < 0.5:
            return mine
        first, second = self.reference(left, mine), self.reference(right, theirs)
        return first.eqNullSafe(second) if self._choose.random() < 0.2 else first == second

    # ── the steps ────────────────────────────────────────────────────────────────────────────────────────
    def rename(self, frame: Any) -> Any:
        return frame.withColumnRenamed(self.column(frame), self.name())

    def select(self, frame: Any) -> Any:
        return frame.select(*(self.reference(frame, each).alias(self.name()) for each in self.columns(frame, 4)))

    def star(self, frame: Any) -> Any:
        return frame.select("*", self.reference(frame, self.column(frame)).alias(self.name()))

    def replace(self, frame: Any) -> Any:
        return frame.withColumn(self.name(), self.reference(frame, self.column(frame)))

    def drop(self, frame: Any) -> Any:
        chosen = self.columns(frame)
        if self._choose.random() < 0.5:
            return frame.drop(*(self.reference(frame, each) for each in chosen))
        return frame.drop(*chosen)

    def alias(self, frame: Any) -> Any:
        named, name = self.name().replace(".", "_"), self.column(frame)
        aliased = frame.alias(named)
        return aliased.groupBy(f"`{named.replace('`', '``')}`.{self.spelled(name)}").count()

    def where(self, frame: Any) -> Any:
        return frame.where(self.predicate(frame))

    def python(self, frame: Any) -> Any:
        """A column made by a function in Python, of one or two others, or of none."""
        from pyspark.sql import functions as F

        made = F.udf(lambda *values: sum(len(str(each)) for each in values) % 3, "int")
        return frame.withColumn(self.name(), made(*(self.reference(frame, each) for each in self.columns(frame, 2))))

    def flag(self, frame: Any) -> Any:
        from pyspark.sql import functions as F

        chosen = self.reference(frame, self.column(frame))
        return frame.withColumn(self.name(), F.when(self.predicate(frame), chosen))

    def predicate(self, frame: Any) -> Any:
        from pyspark.sql import functions as F

        one, constant = self.reference(frame, self.column(frame)), self._choose.choice((None, 1, 2))
        match self._choose.randrange(10):
            case 9:
                return F.lit(self._choose.random() < 0.5)
            case 0 | 1:
                return one.isNotNull()
            case 2:
                return one.isNull()
            case 3:
                return one.eqNullSafe(constant)
            case 4:
                return one.eqNullSafe(self.reference(frame, self.column(frame)))
            case 5:
                return one == F.lit(constant)
            case 6:
                return ~self.predicate(frame)
            case 7:
                return self.predicate(frame) | self.predicate(frame)
            case _:
                return self.predicate(frame) & self.predicate(frame)

    def group(self, frame: Any) -> Any:
        keys = [self.reference(frame, each) for each in self.columns(frame)]
        return frame.groupBy(*keys).agg(self.total(self.column(frame)).alias(self.name()))

    def distinct(self, frame: Any) -> Any:
        return frame.distinct()

    def some_distinct(self, frame: Any) -> Any:
        chosen = self.columns(frame)
        return frame.select(*map(self.spelled, chosen)).dropDuplicates()

    def window(self, frame: Any) -> Any:
        from pyspark.sql import Window

        keys = [self.reference(frame, each) for each in self.columns(frame)]
        return frame.withColumn(self.name(), self.total(self.column(frame)).over(Window.partitionBy(*keys)))

    def join_other(self, frame: Any) -> Any:
        how = self._choose.choice(JOINS)
        joined = frame.join(self._b, self.on(frame, self._b), how)
        return joined.drop(self.reference(self._b, self.column(self._b))) if self._choose.random() < 0.5 else joined

    def join_groups(self, frame: Any) -> Any:
        """With groups of its own, of which columns are dropped."""
        key = self.column(frame)
        groups = frame.groupBy(self.reference(frame, key).alias("g")).agg(self.total(self.column(frame)).alias("mx"))
        joined = frame.join(
            groups, self.reference(frame, self.column(frame)) == groups.g, self._choose.choice(JOINS[:4])
        )
        for each in self.columns(frame):
            joined = joined.drop(self.reference(frame, each)) if self._choose.random() < 0.5 else joined.drop(each)
        return joined

    def join_itself(self, frame: Any) -> Any:
        key = self.spelled(self.column(frame))
        both = frame.alias("l").join(frame.alias("r"), _expression(f"l.{key} = r.{key}"), self._choose.choice(JOINS))
        return both.select("l.*")

    def union(self, frame: Any) -> Any:
        return frame.unionAll(frame.where(self.reference(frame, self.column(frame)).isNull()))

    def set_operation(self, frame: Any) -> Any:
        chosen = list(map(self.spelled, self.columns(frame)))
        method = self._choose.choice(("intersect", "subtract", "exceptAll", "intersectAll"))
        return getattr(frame.select(*chosen), method)(frame.where("1 = 1").select(*chosen))

    def sql(self, frame: Any) -> Any:
        view = self._choose.choice(("k", "event", "ta", "m"))
        frame.createOrReplaceTempView(view)
        self._b.createOrReplaceTempView("tb")
        key, value = self.spelled(self.column(frame)), self.spelled(self.column(frame))
        other = self.spelled(self.column(self._b))
        texts = (
            f"select {key}, count({value}) as g from {view} group by {key}",
            f"select distinct {key}, {value} from {view}",
            f"with x as (select {key} as g, max({value}) as mx from {view} group by 1) select x.* from x",
            f"select {view}.{key}, w from {view} join tb on {view}.{key} = tb.{other}",
            f"select {key}, sum(1) over (partition by {value}) as g from {view}",
            f"select {key} from {view} where {value} in (select {other} from tb)",
            f"select {key} from {view} where {value} not in (select max({value}) from {view})",
            f"select {key} from {view} where exists (select 1 from tb where tb.{other} = {view}.{value})",
            f"select {key}, count(*) as g from {view} group by rollup({key})",
            f"select {key}, {value} from {view} union all select {value}, {value} from {view} where {key} is null",
            f"select {key}, {value} from {view} union select {key}, {value} from {view}",
            f"select /*+ repartition(3, {value}) */ {value} from {view}",
        )
        return self._spark.sql(self._choose.choice(texts))

    def explode(self, frame: Any) -> Any:
        from pyspark.sql import functions as F

        return frame.withColumn(self.name(), F.explode(F.array(self.reference(frame, self.column(frame)), F.lit(None))))

    def placed(self, frame: Any) -> Any:
        """Where rows lie is nobody's business."""
        match self._choose.randrange(3):
            case 0:
                return frame.repartition(3, self.reference(frame, self.column(frame)))
            case 1:
                return frame.hint("broadcast")
            case _:
                return frame.coalesce(1)

    def rollup(self, frame: Any) -> Any:
        return frame.rollup(self.reference(frame, self.column(frame))).count()


def _expression(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


_STEPS: tuple[Callable[[Body, Any], Any], ...] = (
    *(
        Body.rename,
        Body.select,
        Body.star,
        Body.replace,
        Body.drop,
        Body.alias,
        Body.where,
        Body.flag,
        Body.python,
        Body.explode,
        Body.placed,
    ),
    *(Body.group, Body.group, Body.distinct, Body.some_distinct, Body.window, Body.union, Body.set_operation),
    *(Body.join_other, Body.join_other, Body.join_groups, Body.join_itself, Body.sql, Body.sql, Body.rollup),
)
