"""`python -m tests.adapters.recordingguard`: a guard of sessions that only tells what it has read, with its pid before each line."""

import os
import sys

if __name__ == "__main__":
    for line in sys.stdin:
        print(os.getpid(), line, end="", flush=True)
