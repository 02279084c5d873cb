from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatel0rd.models.events import (
    APART,
    Event,
    agreement,
    boundaries,
    covering,
    event_starts,
    find_events,
    match_count,
    peaks,
    segments,
)

TIMES = st.lists(st.integers(0, 20), max_size=6, unique=True)
GATES = np.array(
    [
        [0.0, 0.5, 0.0],  # open from the first input on: was not seen to open
        [0.2, 0.9, 0.0],  # another gate opens while one is open: the same stretch
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.1],  # all were closed: an event
        [0.6, 0.0, 0.4],  # its second gate
        [0.3, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.7, 0.0],  # an event that lasts until the end
        [0.0, 0.8, 0.0],
    ]
)


def test_an_event_is_where_a_gate_opens_after_all_were_closed():
    assert find_events(GATES) == [
        Event(time=3, duration=3, dimensions=(0, 2), strengths=(0.6, 0.4)),
        Event(time=7, duration=2, dimensions=(1,), strengths=(0.8,)),
    ]
    assert find_events(np.zeros((4, 2))) == find_events(np.ones((4, 2))) == find_events(np.zeros((0, 2))) == []


def test_closing_and_opening_gates_hand_over_without_an_event():
    assert find_events(np.array([[0.5, 0], [0, 0.5], [0.5, 0]])) == []


def test_the_first_step_is_an_event_only_if_all_were_closed_before():
    is_open = np.array([[True, False, True, True], [False, True, True, False]])
    assert event_starts(is_open).tolist() == [[False, False, True, False], [False, True, False, False]]
    assert event_starts(is_open, closed_before=True).tolist() == [
        [True, False, True, False],
        [False, True, False, False],
    ]


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12))
def test_events_cover_the_open_steps(rows):
    gates = np.array(rows, dtype=np.float32)
    is_open = gates.any(axis=1)
    first_closed = int(np.argmin(is_open)) if not is_open.all() else len(is_open)
    covered = {t for event in find_events(gates) for t in range(event.time, event.time + event.duration)}
    assert covered == {t for t in range(first_closed, len(is_open)) if is_open[t]}


def test_boundaries_are_events_that_are_not_too_close():
    events = [Event(time, 1, (0,), (1.0,)) for time in (3, 5, 6, 9)]
    assert boundaries(events, apart=1).tolist() == [3, 5, 6, 9]
    assert boundaries(events, apart=2).tolist() == [3, 5, 9]
    assert boundaries(events).tolist() == boundaries(events, apart=APART).tolist() == [3, 6, 9]


def test_segments_lie_between_boundaries():
    assert segments([3, 7], 10) == [(0, 3), (3, 7), (7, 10)]
    assert segments([0, 10], 10) == [(0, 10)]


@given(TIMES, TIMES, st.integers(0, 4))
def test_matching_is_the_largest_possible(found, true, tolerance):
    def largest(found, true):
        if not found:
            return 0
        rest = largest(found[1:], true)
        options = [
            1 + largest(found[1:], [t for t in true if t != time]) for time in true if abs(time - found[0]) <= tolerance
        ]
        return max([rest, *options])

    assert match_count(found, true, tolerance) == largest(sorted(found), true)


@given(TIMES, TIMES)
def test_covering_is_one_for_the_same_cuts_only_and_symmetric_in_order(found, true):
    inside = [cut for cut in true if 0 < cut < 21]
    assert covering(true, true, 21) == pytest.approx(1)
    assert covering(found[::-1], true[::-1], 21) == covering(found, true, 21)
    if sorted(cut for cut in found if 0 < cut < 21) != sorted(inside):
        assert covering(found, true, 21) < 1


def test_agreement_adds_up_over_sequences():
    found, true = [[5, 20], [], [3]], [[6], [9], []]
    result = agreement(found, true, 30, 2)
    assert (result.found, result.true, result.matched) == (3, 2, 1)
    assert (result.precision, result.recall, result.f1) == (1 / 3, 1 / 2, 2 / 5)
    nothing = agreement([[]], [[]], 30, 2)
    assert (nothing.precision, nothing.f1, nothing.covering) == (0, 1, 1)


def test_peaks_are_local_maxima_above_the_threshold():
    signal = np.array([0, 3, 1, 2, 2, 0, 5.0])
    assert peaks(signal, 1.5).tolist() == [1, 3, 6]
    assert peaks(signal, 2.5).tolist() == [1, 6]


def test_all_pairs_of_times_match_themselves():
    for pair in combinations(range(5), 2):
        assert match_count(pair, pair, 0) == 2
