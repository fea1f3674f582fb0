"""Numbers of things in sentences."""


def counted(number: int, thing: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
