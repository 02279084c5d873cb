"""Make the parts of the documentation that come from the registry and from records: run with ``make docs``."""

from __future__ import annotations

import shutil
from pathlib import Path

from gatel0rd.experiments.catalogue import catalogue
from gatel0rd.experiments.illustrations import ILLUSTRATIONS, meadow_scene, rooms_scene, table_scene
from gatel0rd.experiments.profiles import PROFILES
from gatel0rd.experiments.report import make_report
from gatel0rd.files import write_atomically

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
PICTURES = (
    ("rrc-generalization", "paper-text", 1),
    ("rrc-latents", "paper-text", 0),
    ("billiard-scheduled-sampling", "quick-text", 0),
    ("billiard-latents", "quick-text", 0),
    ("rrc-planning", "paper-text", 0),
    ("shepherd-prediction", "quick-1000-epochs-text", 1),
    ("shepherd-planning", "quick-1000-epochs-text", 0),
    ("shepherd-latents", "quick-text", 0),
    ("fetch-generalization", "paper-text", 1),
    ("fetch-latents", "paper-text", 0),
    ("minigrid-doorkey", "quick-1500000-frames-tuned", 0),
    ("minigrid-red-blue-doors", "quick-1500000-frames-tuned", 0),
    ("minigrid-zero-shot-doorkey", "quick-1500000-frames-tuned", 0),
)
"""Experiment, profile with preset, and number of the view of each figure that README and guides show."""


def experiments_page() -> str:
    """The registry as a Markdown page."""
    lines = [
        "# Experiments",
        "",
        "Generated from the registry by `make docs`; `gatel0rd list --json FILE` writes the same as data.",
        "",
        "| profile | what |",
        "| --- | --- |",
        *(f"| `{profile.name}` | {profile.description} |" for profile in PROFILES.values()),
        "",
    ]
    for entry in catalogue():
        lines += [
            f"## `{entry['id']}`: {entry['title']}",
            "",
            f"{entry['question']} The paper: {entry['claim']}",
            "",
            f"- In the paper: {', '.join(entry['artefacts'])}",
            f"- Networks: {', '.join(entry['variants'])}; the paper's number of seeds: {entry['paper_seeds']}",
            f"- Run: `gatel0rd run {entry['id']}`",
            "",
        ]
    return "\n".join(lines)


def scenes(directory: Path) -> None:
    """A picture of every world in the middle of an episode."""
    from PIL import Image

    drawn = {"robot-remote-control": rooms_scene, "billiard-ball": table_scene, "shepherd": meadow_scene}
    for name, draw in drawn.items():
        Image.fromarray(draw()).save(directory / f"{name}.png", optimize=True)


def experts(path: Path) -> None:
    """A contact sheet: every way of moving the object in Fetch Pick&Place, in six moments."""
    import numpy as np
    from PIL import Image

    from gatel0rd.data.fetch_pick_and_place import KINDS, Play, sample_expert
    from gatel0rd.envs.fetch_drawing import draw_arm
    from gatel0rd.envs.fetch_simulation import Arm, sample_object

    arm, generator, rows = Arm(), np.random.default_rng(3), []
    for kind in KINDS[:-1]:
        expert = sample_expert(kind, generator, lifts=kind == "grasp")
        arm.reset(sample_object(generator))
        course, row = Play(expert, generator), []
        for t in range(41):
            if t in (0, 6, 12, 16, 22, 40):
                row.append(draw_arm(arm.data, 150, goal=expert.goal))
            arm.step(course.act(arm.observe(), arm.touching()).astype(np.float32))
        rows.append(np.concatenate(row, axis=1))
    Image.fromarray(np.concatenate(rows)).save(path, optimize=True)


def main() -> None:
    write_atomically(DOCS / "experiments.md", experiments_page())
    scenes(DOCS / "images")
    experts(DOCS / "images" / "fetch-experts.png")
    report, fresh = DOCS / "results", DOCS / ".results"
    shutil.rmtree(fresh, ignore_errors=True)
    make_report([RESULTS], fresh, illustrated=list(ILLUSTRATIONS))
    shutil.rmtree(report, ignore_errors=True)
    fresh.rename(report)
    for experiment, profile, view in PICTURES:
        picture = report / "figures" / f"{experiment}-{profile}-{view}.png"
        shutil.copy(picture, DOCS / "images" / f"{experiment}.png")


if __name__ == "__main__":
    main()
