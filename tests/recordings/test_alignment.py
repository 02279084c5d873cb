from __future__ import annotations

import numpy as np

from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.alignment import note_alignment


def test_actions_in_the_wrong_row_are_noted():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(5, 40, 1))
    leads_to_next = np.concatenate([np.zeros((5, 1, 1)), np.cumsum(actions, axis=1)[:, :-1]], axis=1)
    explains_own = np.cumsum(actions, axis=1)
    assert note_alignment(from_arrays(leads_to_next, actions)) == []
    (note,) = note_alignment(from_arrays(explains_own, actions))
    assert note.startswith("actions explain 100% of the changes in their own row and ")
    assert note_alignment(from_arrays(rng.normal(size=(5, 40, 2)))) == []
