"""Event segmentation as people know it from scikit-learn: fit, then predict."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.events import APART, agreement
from gatel0rd.models.fitted import FittedModel
from gatel0rd.nn.config import CellName
from gatel0rd.recordings.changes import choose_condition, count_conditioned
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.detector import ChangeDetector, OnlineChanges
from gatel0rd.recordings.frames import GivenSequences, Sequences, read_sequences
from gatel0rd.recordings.method import MethodName
from gatel0rd.recordings.online import OnlineGates
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.segmentation import Segmentation, count_votes, read_choice, segment, segment_by_changes
from gatel0rd.recordings.windows import split

if TYPE_CHECKING:
    import pandas

    class BaseEstimator:
        """What scikit-learn gives its estimators."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **values: Any) -> BaseEstimator: ...

    class ClusterMixin: ...

    class TransformerMixin: ...

else:
    try:
        from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
    except ImportError:
        from gatel0rd.recordings.estimator import BaseEstimator, ClusterMixin, TransformerMixin

VOTING_SHARE = 0.2
"""Share of the sequences that a voting detector does not see."""


class EventSegmenter(ClusterMixin, TransformerMixin, BaseEstimator):
    """Learns to predict sequences, and cuts them where something happens.

    By default nothing has to be known about the number of events; see :mod:`gatel0rd.recordings.method` for how the
    method is chosen and :mod:`gatel0rd.recordings.sweep` for how many events the gates make.

    Args:
        method: ``gates`` (a network's memory changes), ``changes`` (the coefficients or the noise of a regression
            change; takes seconds) or None: whichever explains the sequences better.
        events: events per sequence, where they are known.
        gate_rate: share of gates that should be open, in place of ``events``.
        apart: boundaries less than this many steps after another belong to it.
        votes: how many fits with different seeds vote on each boundary; see ``votes`` of
            :class:`gatel0rd.recordings.segmentation.Segmentation`.
        cell, hidden_size, window, rounds, minutes, learning_rate, seed: see
            :class:`gatel0rd.recordings.config.FitConfig`.
        directory: where the fit is kept and can be resumed; a temporary one if not given.

    Attributes:
        model_: the :class:`gatel0rd.models.fitted.FittedModel`, after :meth:`fit`; None with ``method="changes"``.
        detector_: the :class:`gatel0rd.recordings.detector.ChangeDetector`.
        method_: the method that was chosen.
        n_features_in_: columns of the sequences.
        labels_: label of the segment that each row is in, for every sequence (for one table: an array).

    Example:
        >>> import numpy as np
        >>> from gatel0rd import EventSegmenter
        >>> rng = np.random.default_rng(0)
        >>> level = np.cumsum(np.where(np.arange(200) < 120, 0.5, -0.5) + rng.normal(0, 0.05, 200))
        >>> segmenter = EventSegmenter(method="changes").fit([level[:, None]])
        >>> (cuts,) = segmenter.predict([level[:, None]])
        >>> [int(cut) for cut in cuts]
        [120]
    """

    def __init__(
        self,
        *,
        method: MethodName | None = None,
        events: float | None = None,
        gate_rate: float | None = None,
        apart: int = APART,
        votes: int = 1,
        cell: CellName = "gatel0rd",
        hidden_size: int = 8,
        window: int = 50,
        rounds: int = 200,
        minutes: float | None = None,
        learning_rate: float = 0.005,
        seed: int = 0,
        directory: Path | str | None = None,
    ) -> None:
        self.method, self.events, self.gate_rate, self.apart, self.cell = method, events, gate_rate, apart, cell
        self.hidden_size, self.window, self.rounds, self.minutes = hidden_size, window, rounds, minutes
        self.learning_rate, self.seed, self.directory, self.votes = learning_rate, seed, directory, votes

    def fit(self, X: Sequences, y: Any = None, *, actions: Sequences | None = None) -> EventSegmenter:
        """Fit to sequences: a list of arrays [T, columns], one array [N, T, columns], or a pandas table.

        A table with a column that names the sequence (see :func:`gatel0rd.recordings.frames.read_sequences`) holds
        several, one without holds one; so does an array [T, columns]. ``y`` is not used.
        """
        given = read_sequences(X, actions)
        self._learn(given.recordings)
        self.n_features_in_ = len(given.recordings.observation_names)
        vars(self).pop("feature_names_in_", None)  # of a fit before
        if given.names is not None:
            self.feature_names_in_ = np.array(given.names, dtype=object)
        self.labels_ = self.transform(X, actions=actions)
        return self

    def _learn(self, recordings: Recordings) -> None:
        from gatel0rd.recordings.fit import fit, load_voters

        self.voters_: list[FittedModel] = []
        self.voting_detectors_: list[ChangeDetector] = []
        if self.method == "changes":
            self.model_, self.detector_, self.method_ = None, ChangeDetector.learn(recordings), "changes"
            parts = [split(recordings, VOTING_SHARE, self.seed + number)[0] for number in range(1, self.votes)]
            self.voting_detectors_ = [ChangeDetector.learn(part) for part in parts]
            return
        known = {entry.name for entry in fields(FitConfig)}
        config = FitConfig(**{name: value for name, value in self.get_params().items() if name in known})
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary if self.directory is None else self.directory)
            self.model_ = fit(recordings, config, place, seeds=self.votes)
            self.voters_ = load_voters(place)
        choice = read_choice(self.model_)
        assert choice is not None
        self.detector_, self.method_ = choice.detector, self.method or choice.method

    model_: FittedModel | None
    detector_: ChangeDetector
    method_: MethodName

    def segment(self, X: Sequences, *, actions: Sequences | None = None) -> list[Segmentation]:
        """Boundaries, segments, labels and events of every sequence."""
        given = self._read(X, actions)
        recordings = given.recordings
        if recordings.names != given.expected_names:
            raise ValueError(
                "some sequences are too short or have long gaps, and would be left out or split: there would not be "
                "one answer for each; leave them out or fill them in first"
            )
        if self.model_ is None:
            cut, *others = [
                segment_by_changes(detector, recordings, apart=self.apart)
                for detector in (self.detector_, *self.voting_detectors_)
            ]
            return count_votes(cut, others, self.apart)
        voters = getattr(self, "voters_", [])
        return segment(self.model_, recordings, apart=self.apart, method=self._method(), voters=voters)

    def predict(self, X: Sequences, *, actions: Sequences | None = None) -> Any:
        """The boundaries of every sequence: a list of arrays; of one table with time stamps, those stamps."""
        found = [entry.rows for entry in self.segment(X, actions=actions)]
        given = self._read(X, actions)
        if given.times is not None:
            times = [given.times[place][cuts] for place, cuts in enumerate(found)]
            return times[0] if given.single else times
        return found[0] if given.single else found

    def fit_predict(self, X: Sequences, y: Any = None, *, actions: Sequences | None = None) -> Any:
        """Fit, and say where the same sequences have their boundaries."""
        return self.fit(X, actions=actions).predict(X, actions=actions)

    def transform(self, X: Sequences, *, actions: Sequences | None = None) -> Any:
        """The label of the segment that each row is in; equal segments have equal labels, so that states recur.

        Arrays of whole numbers; of a pandas table a series with the table's index.
        """
        found = [entry.row_labels() for entry in self.segment(X, actions=actions)]
        return self._read(X, actions).label_rows(found)

    def fit_transform(self, X: Sequences, y: Any = None, *, actions: Sequences | None = None) -> Any:
        """Fit, and label the rows of the same sequences."""
        return self.fit(X, actions=actions).labels_

    def score(self, X: Sequences, y: Any = None, *, actions: Sequences | None = None) -> float:
        """How well sequences are cut, or explained; larger is better.

        With ``y``, the true boundaries of every sequence: F1 of :meth:`predict`, where boundaries match one to one if
        they are less than ``apart`` steps apart. Without: nats per step that the change detector gives the sequences.
        """
        given = self._read(X, actions)
        recordings = given.recordings
        if y is None:
            condition = choose_condition(recordings.lengths)
            steps = count_conditioned(recordings.lengths, condition)
            return self.detector_.measure_evidence(recordings, condition) / steps
        found = [entry.rows for entry in self.segment(X, actions=actions)]
        true = [y] if given.single else list(y)
        return agreement(found, true, max(given.lengths), self.apart - 1).f1

    def begin(self) -> OnlineChanges | OnlineGates:
        """Begin a sequence whose rows come one by one, for :meth:`update` or to keep several apart."""
        self._check_fitted()
        if self._method() == "changes" or self.model_ is None:
            self._online: OnlineChanges | OnlineGates = OnlineChanges(self.detector_)
        else:
            self._online = OnlineGates(self.model_, apart=self.apart)
        return self._online

    def update(self, observation: Sequence[float] | NDArray[Any], action: Sequence[float] | NDArray[Any] = ()) -> Any:
        """Take the next row of the sequence that :meth:`begin` began; returns the time of an event, or None.

        Changes are known some steps after they happened: the time may lie in the past.
        """
        if not hasattr(self, "_online"):
            self.begin()
        return self._online.update(observation, action)

    def to_frame(self, X: Sequences, *, actions: Sequences | None = None) -> pandas.DataFrame:
        """A pandas table with a row per boundary: sequence, time (stamp), probability, label, and what changed."""
        import pandas

        found, given = self.segment(X, actions=actions), self._read(X, actions)
        rows = []
        for place, entry in enumerate(found):
            for number, cut in enumerate(entry.rows.tolist()):
                time = cut if given.times is None else given.times[place][cut]
                changed = entry.variables[number] if entry.variables else {}
                rows.append(
                    {
                        "sequence": entry.name,
                        "time": time,
                        "probability": entry.probabilities[number] if entry.probabilities else np.nan,
                        **({"votes": entry.votes[number]} if entry.votes else {}),
                        "label": entry.labels[number + 1] if entry.labels else -1,
                        **{f"changed: {name}": share for name, share in changed.items()},
                    }
                )
        return pandas.DataFrame(rows)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn should know: gaps in sequences are filled in or cut out."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags

    def _method(self) -> MethodName:
        return self.method or (self.method_ if hasattr(self, "method_") else "gates")

    def _read(self, X: Sequences, actions: Sequences | None) -> GivenSequences:
        """Sequences with the columns of the fit; those of tables are known by their names."""
        self._check_fitted()
        given = read_sequences(X, actions, names=vars(self).get("feature_names_in_"))
        found, columns = len(given.recordings.observation_names), self._columns()
        if found != columns:
            raise ValueError(
                f"X has {found} features, but {type(self).__name__} is expecting {columns} features as input: "
                f"the sequences have {found} columns; the model was fitted to {columns}"
            )
        return given

    def _columns(self) -> int:
        return len(self.detector_.observations.offset if self.model_ is None else self.model_.observation_names)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise not_fitted_error()("this EventSegmenter has not been fitted; call fit first")


def not_fitted_error() -> type[ValueError]:
    """scikit-learn's error for it, which is a ValueError, or that."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError
    return NotFittedError  # type: ignore[no-any-return]
