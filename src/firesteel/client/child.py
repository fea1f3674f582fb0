"""A process that calls one function and ends: payload on standard input, the answer into a file.

What the function prints goes to standard error, like everything that is not a command's result.
"""

import importlib
import os
import sys
from pathlib import Path


def main() -> None:
    entry_point, answer = sys.argv[1:]
    payload = sys.stdin.buffer.read()
    os.dup2(2, 1)
    module, _, name = entry_point.partition(":")
    Path(answer).write_bytes(getattr(importlib.import_module(module), name)(payload))


if __name__ == "__main__":
    main()
