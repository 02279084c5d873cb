from __future__ import annotations

import numpy as np
import pytest

from gatel0rd.recordings.families import FAMILIES, SHORTEST_SEGMENT, draw_boundaries, make_family


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_known_boundaries(name):
    data = make_family(name, seed=1, sequences=5, steps=70)
    assert data.recordings.lengths.tolist() == [70] * 5 and len(data.boundaries) == 5
    again, other = (make_family(name, seed=seed, sequences=5, steps=70) for seed in (1, 2))
    assert np.array_equal(data.recordings.observations, again.recordings.observations)
    assert not np.array_equal(data.recordings.observations, other.recordings.observations)
    happens = sum(map(len, data.boundaries)) > 0
    assert happens == (FAMILIES[name].wanted is not None)
    assert data.agree(data.boundaries).f1 == 1


def test_boundaries_keep_their_distance():
    rng = np.random.default_rng(0)
    many = [draw_boundaries(rng, 3000, mean=30) for _ in range(20)]
    gaps = np.concatenate([np.diff([0, *cuts, 3000]) for cuts in many])
    assert gaps.min() >= SHORTEST_SEGMENT and gaps.mean() == pytest.approx(30, rel=0.1)


def test_boundaries_are_where_the_data_changes():
    data = make_family("signalled-switch", seed=4, sequences=3, steps=80)
    level, pressed = data.recordings.sequence(1)
    turns = np.flatnonzero(np.diff(np.sign(np.diff(level[:, 0])))) + 1
    assert turns.tolist() == data.boundaries[1].tolist() == np.flatnonzero(pressed[:, 0]).tolist()


def test_unknown_families_are_errors():
    with pytest.raises(ValueError, match="there is no family 'waves'; expected one of signalled-switch"):
        make_family("waves")
