"""The states of an attempt and the moves between them."""

import numpy as np

from firesteel.core.machine import TransitionTable
from firesteel.model.states import ExecutionState as S

EXECUTION_TRANSITIONS = TransitionTable[S](
    {
        (S.CREATED, S.SCHEDULED): "its inputs are there: the region waits for a slot",
        (S.CREATED, S.FINISHED): "it has nothing to do: another subtask reads its share",
        (S.CREATED, S.CANCELED): "the job is cancelled, or a region it would read is to run again",
        (S.CREATED, S.RECONCILING): "a new JobMaster read in the journal that it was deployed",
        (S.SCHEDULED, S.DEPLOYING): "a slot was assigned",
        (S.SCHEDULED, S.CANCELED): "cancelled before it had a slot",
        (S.SCHEDULED, S.FAILED): "no slot that is large enough came in time",
        (S.DEPLOYING, S.INITIALIZING): "its worker has begun to prepare it",
        (S.DEPLOYING, S.RUNNING): "its worker runs it; the report in between was lost",
        (S.DEPLOYING, S.FINISHED): "it ended before its worker could say that it runs",
        (S.DEPLOYING, S.CANCELING): "cancelled while on its way",
        (S.DEPLOYING, S.FAILED): "its worker refused it or was lost",
        (S.INITIALIZING, S.RUNNING): "the user's code has begun",
        (S.INITIALIZING, S.FINISHED): "it ended before its worker could say that it runs",
        (S.INITIALIZING, S.CANCELING): "cancelled while it is prepared",
        (S.INITIALIZING, S.FAILED): "it could not be prepared, or its worker was lost",
        (S.RUNNING, S.FINISHED): "the user's code has ended well",
        (S.RUNNING, S.CANCELING): "cancelled while it runs",
        (S.RUNNING, S.FAILED): "the user's code failed, or its worker was lost",
        (S.CANCELING, S.CANCELED): "its worker says that it is gone, or is gone itself",
        (S.RECONCILING, S.INITIALIZING): "its worker reports it: adopted",
        (S.RECONCILING, S.RUNNING): "its worker reports it: adopted",
        (S.RECONCILING, S.FINISHED): "it ended while there was no JobMaster",
        (S.RECONCILING, S.FAILED): "it failed meanwhile, or its worker is lost",
        (S.RECONCILING, S.CANCELED): "it was never sent: the next attempt takes its place",
        (S.RECONCILING, S.CANCELING): "cancelled while it is looked for",
    }
)

STATE_COUNT = len(S)

ALLOWED = np.zeros((STATE_COUNT, STATE_COUNT), dtype=np.bool_)
"""ALLOWED[source, target]: the table as a matrix, for many attempts at once."""
for _source, _target in EXECUTION_TRANSITIONS.edges:
    ALLOWED[_source, _target] = True

TERMINAL_STATES = tuple(state for state in S if state.is_terminal)

TERMINAL = np.array([state.is_terminal for state in S])
"""TERMINAL[state]"""

DEPLOYED_STATES = (S.DEPLOYING, S.INITIALIZING, S.RUNNING, S.CANCELING, S.RECONCILING)
"""A worker may have such an attempt."""

DEPLOYED = np.array([state in DEPLOYED_STATES for state in S])
"""DEPLOYED[state]"""
