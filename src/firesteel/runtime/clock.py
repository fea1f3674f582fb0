"""The clock of a process: the wall's time at its start, then monotonic."""

import time


class SystemClock:
    """Milliseconds since the epoch that never go back, also when the wall clock does."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now_ms(self) -> int:
        return int((self._offset + time.monotonic()) * 1000)
