"""Options of what is made of a user's file, and of what it returns."""

from firesteel.model.configuration import ConfigOption

OPERATOR_CHAINING = ConfigOption(
    "pipeline.operator-chaining.enabled", "bool", True, "Chain functions that follow one another into one vertex."
)
RESULT_MAX_SIZE = ConfigOption(
    "job.result.max-size",
    "memory",
    16,
    "Most that the rows of one function of a pipeline may take which are returned to its caller.",
)
PYTHON_EXECUTABLE = ConfigOption(
    "python.executable",
    "str",
    "",
    "Interpreter of Spark's Python workers for one job, in an archive that travels with it (`--archives FILE.tar.gz#NAME`): `NAME/bin/python`. Empty means the worker's Python.",
)
PACKAGE_SIZE_LIMIT = ConfigOption(
    "pipeline.package.size-limit", "memory", 64, "Largest package of user code that travels with a job."
)
