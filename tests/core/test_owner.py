"""Whose sessions Spark sees."""

import msgspec

from tests.core.graphs import job
from tests.core.stories.jobmaster import new_core


def test_attempts_work_for_the_owner_of_their_job() -> None:
    assert new_core(msgspec.structs.replace(job("v"), owner="vera")).job.user == "vera"
    assert new_core(job("v")).job.user == "firesteel"
