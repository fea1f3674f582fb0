"""Share: what a subtask has of a relation's rows, and where the keys are by which they were shared out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firesteel.adapters.spark.operators import children, column_name, qualified_name


@dataclass(frozen=True, slots=True)
class Share:
    """All rows (`whole`, the same in every subtask), or a part: every row is in exactly one subtask."""

    whole: bool
    keys: tuple[frozenset[str], ...] = ()
    """Of each hash key, in order, the columns that hold it unchanged. Empty: equal keys may be anywhere."""
    columns: tuple[str, ...] | None = None
    """The columns' names, where they are known."""
    aliases: frozenset[str] = frozenset()
    """What `alias` calls it, in lower case."""
    foreign: frozenset[int | str] = frozenset()
    """Plan ids and aliases of the other sides of joins: a column named through one is not the key of that name ..."""
    far: frozenset[str] = frozenset()
    """... but for these keys, which came from one of those sides and are not on this one."""

    def complete_for(self, names: Iterable[str]) -> bool:
        """Whether rows that are equal in the columns `names` are all in one subtask."""
        given = set(names)
        return self.whole or (bool(self.keys) and all(key & given for key in self.keys))

    def meets(self, other: "Share", pairs: Sequence[tuple[str, str]]) -> bool:
        """Whether rows that are equal in these pairs of columns are in the same subtask."""
        return (
            bool(self.keys)
            and len(self.keys) == len(other.keys)
            and all(
                any(left in mine and right in theirs for left, right in pairs)
                for mine, theirs in zip(self.keys, other.keys, strict=True)
            )
        )

    def name_of(self, expression: Any) -> str:
        """The column that an expression is, or empty when it may be that of the other side of a join."""
        qualifier, name = qualified_name(expression)
        alias = qualifier.lower()
        if alias and alias not in self.aliases and alias not in self.foreign:
            return ""  # a field of a struct, as far as one can see
        return "" if self.is_foreign(expression) and name not in self.far else name

    def is_foreign(self, expression: Any) -> bool:
        """Whether a column is named through the other side of a join."""
        attribute = expression.unresolved_attribute
        by_plan = attribute.HasField("plan_id") and attribute.plan_id in self.foreign
        return by_plan or qualified_name(expression)[0].lower() in self.foreign

    def names_of(self, expressions: Iterable[Any]) -> list[str]:
        """The columns among `expressions`, also under another name."""
        return [name for each in expressions if (name := self.name_of(_behind_alias(each)))]

    def projected(self, *expressions: Sequence[Any]) -> "Share":
        """After these expressions have become the columns."""
        out: list[tuple[str, str]] = []
        known = True
        for expression in (each for part in expressions for each in part):
            kind = expression.WhichOneof("expr_type")
            if kind == "unresolved_star":
                star = expression.unresolved_star
                plain = not star.HasField("unparsed_target") and not star.HasField("plan_id")
                if plain:
                    out += [(name, name) for name in self.columns or sorted(frozenset().union(*self.keys))]
                known = known and plain and self.columns is not None
            elif kind == "alias" and len(expression.alias.name) == 1:
                out.append((self.name_of(expression.alias.expr), expression.alias.name[0]))
                known = known and not _may_be_many(expression.alias.expr)
            else:
                name = column_name(expression)
                out.append((self.name_of(expression), name))
                known = known and bool(name)
        return self._moved(out, known)

    def renamed(self, names: Mapping[str, str]) -> "Share":
        """After columns got other names, whatever the case they are written in."""
        lowered = {old.lower(): new for old, new in names.items()}
        held = self.columns or sorted(frozenset().union(*self.keys))
        return self._moved([(name, lowered.get(name.lower(), name)) for name in held], self.columns is not None)

    def renamed_by_position(self, names: list[str]) -> "Share":
        if self.columns is None or len(self.columns) != len(names):
            return replace(self, keys=(), columns=tuple(names))
        return self._moved(list(zip(self.columns, names, strict=True)), known=True)

    def without(self, names: Iterable[str]) -> "Share":
        """After these columns have been dropped; "" stands for one that is not known."""
        gone = {name.lower() for name in names}
        columns = None
        if self.columns is not None and "" not in gone:
            columns = tuple(name for name in self.columns if name.lower() not in gone)
        return replace(self.changed(gone), columns=columns)

    def changed(self, names: Iterable[str]) -> "Share":
        """After these columns got other values, or were added."""
        new = {name.lower(): name for name in names}
        keys = tuple(frozenset(name for name in key if name.lower() not in new) for key in self.keys)
        columns = self.columns
        if columns is not None:
            held = {name.lower() for name in columns}
            columns = (*columns, *(name for lowered, name in new.items() if lowered not in held))
        far = frozenset(name for name in self.far if name.lower() not in new)
        return replace(self, keys=keys if all(keys) else (), columns=columns, far=far)

    def lacks(self, name: str) -> bool:
        """Whether no column has this name, for certain."""
        return self.columns is not None and name.lower() not in map(str.lower, self.columns)

    def _moved(self, pairs: Sequence[tuple[str, str]], known: bool) -> "Share":
        """`pairs`: the column that was, or empty, and the name it has now."""
        names = [new.lower() for _, new in pairs]
        keys = tuple(
            frozenset(new for old, new in pairs if old in key and names.count(new.lower()) == 1) for key in self.keys
        )
        columns = tuple(new for _, new in pairs) if known and len(set(names)) == len(names) else None
        far = frozenset(name for name in self.far if (name, name) in pairs)
        return replace(self, keys=keys if all(keys) else (), columns=columns, far=far)


WHOLE = Share(whole=True)
PART = Share(whole=False)


def plan_ids(message: Any) -> frozenset[int]:
    """Ids of all relations in a proto message."""
    found: set[int] = set()
    if message.DESCRIPTOR.full_name == "spark.connect.Relation" and message.common.HasField("plan_id"):
        found.add(message.common.plan_id)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else (value,):
                if hasattr(item, "DESCRIPTOR"):
                    found |= plan_ids(item)
    return frozenset(found)


def _behind_alias(expression: Any) -> Any:
    return expression.alias.expr if expression.WhichOneof("expr_type") == "alias" else expression


def _may_be_many(expression: Any) -> bool:
    return expression.WhichOneof("expr_type") == "unresolved_star" or any(map(_may_be_many, children(expression)))
