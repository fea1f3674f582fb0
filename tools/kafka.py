"""Download the jars of a Kafka broker for `make test-stack`: 43 MB from Maven.

`python -m tools.kafka` prints the directory, in the user's cache.
"""

import sys
from pathlib import Path

from tools import maven

VERSION = "4.4.0"


def main() -> int:
    print(home())
    return 0


def home() -> Path:
    """The directory with the broker's jars."""
    return maven.kept(f"kafka-{VERSION}", ("org.apache.kafka", "kafka_2.13", VERSION))


if __name__ == "__main__":
    sys.exit(main())
