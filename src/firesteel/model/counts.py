"""Numbers of things in sentences."""


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 worker`, `2 workers`; `things` where an s does not do."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
