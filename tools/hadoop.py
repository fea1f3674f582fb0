"""Download Hadoop's own servers for `make test-stack`, HDFS and YARN: 56 MB from Maven.

`python -m tools.hadoop` prints the directory, in the user's cache. The rest that they need is among PySpark's jars.
"""

import sys
from pathlib import Path

from firesteel.adapters.storage.schemes import HADOOP_VERSION
from tools import maven


def main() -> int:
    print(home())
    return 0


def home() -> Path:
    """The directory with the servers' jar."""
    coordinates = ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION)
    return maven.kept(f"hadoop-{HADOOP_VERSION}", coordinates, "-notransitive")


def cryptography() -> Path:
    """The directory with the jars that a ResourceManager needs besides: 10 MB."""
    return maven.kept("bouncycastle-1.82", ("org.bouncycastle", "bcpkix-jdk18on", "1.82"))


if __name__ == "__main__":
    sys.exit(main())
