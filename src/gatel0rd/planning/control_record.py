"""What happened while an environment was learned, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gatel0rd.config import to_json
from gatel0rd.planning.diagnosis import Diagnosis, combine
from gatel0rd.planning.experience import RecordedEpisode

if TYPE_CHECKING:
    from gatel0rd.planning.learning import ControlLearner


def make_record(learner: ControlLearner) -> dict[str, Any]:
    """Settings, costs in steps and seconds, the diagnosis, and every episode."""
    tests, diagnosis = [float(episode.rewards.sum()) for episode in learner.tests], combine_diagnoses(learner)
    succeeded = [episode.findings["is_success"] for episode in learner.tests if "is_success" in episode.findings]
    seconds = sum(episode.seconds for episode in learner.episodes) + sum(learner.fit_seconds)
    return {
        **learner.identity,
        "settings": to_json(learner.config),
        "seed": learner.config.seed,
        "environment_steps": learner.steps,
        "seconds": round(seconds, 2),
        "fit_seconds": learner.fit_seconds,
        "fits": learner.terms,
        "test_returns": tests,
        "test_return": float(np.mean(tests)) if tests else None,
        "test_success": float(np.mean(succeeded)) if succeeded else None,
        "summary": None if diagnosis is None else diagnosis.describe(),
        "gates": None if diagnosis is None else diagnosis.describe_gates(),
        "diagnosis": None if diagnosis is None else diagnosis.to_json(),
        "episodes": list_episodes(learner),
    }


def list_episodes(learner: ControlLearner) -> list[dict[str, Any]]:
    """Each episode in short, and how many environment steps there were until its end, without tests."""
    entries: list[dict[str, Any]] = []
    steps = 0
    for number, episode in enumerate(learner.episodes):
        steps += episode.steps if episode.kind != "test" else 0
        found = read_diagnosis(episode)
        entries.append(
            {
                "number": number,
                "kind": episode.kind,
                "environment_steps": steps,
                "length": episode.steps,
                "return": float(episode.rewards.sum()),
                "cost": float(learner.real_costs(episode).sum()),
                "terminated": episode.terminated,
                "last_observation": episode.observations[-1].tolist(),
                "success": episode.findings.get("is_success"),
                "seconds": episode.seconds,
                "diagnosis": None if found is None else found.describe(),
            }
        )
    return entries


def combine_diagnoses(learner: ControlLearner) -> Diagnosis | None:
    """Of the tests, or of the last planned episodes as long as there are none; None before."""
    planned = [episode for episode in learner.episodes if episode.kind == "planned"]
    for episodes in (learner.tests, planned[-10:]):
        found = [diagnosis for diagnosis in map(read_diagnosis, episodes) if diagnosis is not None]
        if found:
            return combine(found)
    return None


def read_diagnosis(episode: RecordedEpisode) -> Diagnosis | None:
    """What was diagnosed in an episode."""
    plain = episode.findings.get("diagnosis")
    return None if plain is None else Diagnosis(**plain)
