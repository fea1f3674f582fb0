"""The class-data archive of this machine's Spark, with which its JVMs start in half the time (`make archive`)."""

from firesteel.adapters.spark.jvm import launch
from tools.archive import file_of


def class_data_archive() -> str:
    """Value of `taskmanager.spark.class-data-archive` for workers of tests: whether there is one. Without, each would start a
    process that makes it and outlives the test."""
    return str(file_of(launch.find_installation()).exists()).lower()
