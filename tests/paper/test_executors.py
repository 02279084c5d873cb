"""The logic that all executors share, with one that does as it is told."""

from __future__ import annotations

import pytest

from gatel0rd.paper.executors.base import RETRIES, Busy, Died, Ended, Executor, Started, Told, describe_error
from gatel0rd.paper.executors.coordinator import Coordinator
from gatel0rd.paper.plan import find, plan

RUNS = plan(find("rrc/gating"), profile="smoke", seeds=range(4))


class Scripted(Executor):
    """Lets every submitted run meet the next of its fates."""

    def __init__(self, fates=None, capacity=2, recovered=(), busy=()):
        self.fates, self.capacity, self.recovered = fates or {}, capacity, recovered
        self.submitted, self.active, self.busy = [], list(recovered), list(busy)

    def recover(self):
        return self.recovered

    def submit(self, index, *, again):
        if self.busy:
            raise Busy(self.busy.pop())
        self.submitted.append((index, again))
        self.active.append(index)
        assert len(self.active) <= self.capacity

    def wait(self, tell):
        index = self.active.pop(0)
        fates = self.fates.get(index, [])
        for event in fates.pop(0) if fates else [Started(index), Ended(index, None)]:
            tell(event)


class Notes:
    """A display that writes down what it is told."""

    def __init__(self):
        self.lines = []

    def __getattr__(self, name):
        return lambda index, *content: self.lines.append((name, index, *content))


def coordinate(executor, order=(0, 1, 2, 3)):
    notes = Notes()
    failures = Coordinator(RUNS, executor, notes).run(order)
    return notes.lines, failures


def test_runs_are_submitted_in_order_and_never_more_than_fit():
    executor = Scripted(capacity=2)
    lines, failures = coordinate(executor, (2, 0, 3, 1))
    assert failures == [] and executor.submitted == [(2, False), (0, False), (3, False), (1, False)]
    assert lines == [entry for i in (2, 0, 3, 1) for entry in (("started", i, RUNS[i]), ("ended", i, None))]


def test_what_runs_tell_is_shown_and_a_failure_does_not_stop_the_others():
    told = [Told(1, "progressed", ({"epoch": 3},)), Told(1, "planned", (2, 9)), Ended(1, "the loss became nan")]
    lines, failures = coordinate(Scripted({1: [told]}))
    assert [(failure.run, failure.error) for failure in failures] == [(RUNS[1], "the loss became nan")]
    own = [entry for entry in lines if entry[1] == 1]
    assert own == [
        ("started", 1, RUNS[1]),
        ("progressed", 1, {"epoch": 3}),
        ("planned", 1, 2, 9),
        ("ended", 1, "the loss became nan"),
    ]
    assert sum(entry[0] == "ended" for entry in lines) == 4


def test_a_run_that_dies_is_started_again_first():
    executor = Scripted({0: [[Started(0), Died(0, "its node died")]]}, capacity=1)
    lines, failures = coordinate(executor)
    assert failures == [] and executor.submitted == [(0, False), (0, True), (1, False), (2, False), (3, False)]
    assert [entry[0] for entry in lines if entry[1] == 0] == ["started", "retried", "ended"]


def test_a_run_that_dies_again_and_again_is_given_up():
    executor = Scripted({2: [[Died(2, "job 7 died")]] * (RETRIES + 1)})
    _, failures = coordinate(executor)
    assert [entry for entry in executor.submitted if entry[0] == 2] == [(2, False)] + [(2, True)] * RETRIES
    assert [failure.error for failure in failures] == ["job 7 died, after 3 retries; run again with --resume"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "lock"), "[Errno 28] No space left on device: 'lock'"),
        (
            MemoryError("8 GB"),
            "there is not enough memory for this; let fewer runs share it, as with --workers 1 (8 GB)",
        ),
        (KeyError("mistake of ours"), "Traceback"),
    ],
)
def test_errors_of_the_system_are_told_without_a_traceback(error, message):
    try:
        raise error
    except Exception as exception:
        said = describe_error(exception)
    assert said == message or (message == "Traceback" and said.startswith(message))


def test_runs_of_a_predecessor_are_not_submitted_again():
    executor = Scripted(recovered=(3,))
    _, failures = coordinate(executor)
    assert failures == [] and [index for index, _ in executor.submitted] == [0, 1, 2]


def test_a_full_cluster_is_tried_again_and_one_that_takes_nothing_is_an_error():
    executor = Scripted(recovered=(0,), busy=["the queue is full"])
    assert coordinate(executor)[1] == [] and [index for index, _ in executor.submitted] == [1, 2, 3]
    with pytest.raises(ValueError, match="SLURM does not take jobs: no such partition"):
        coordinate(Scripted(busy=["SLURM does not take jobs: no such partition"]))
