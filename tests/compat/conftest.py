"""`make compat` says where Flink's jars are; without it, what needs them is no part of the run."""

import os

FLINK_JARS = os.environ.get("FIRESTEEL_FLINK_JARS", "")

collect_ignore = [] if FLINK_JARS else ["test_flink_cli.py", "test_flink_options.py", "test_flink_restarts.py"]
