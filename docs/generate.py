"""Make the parts of the documentation that come from the registry and from records: run with ``make docs``."""

from __future__ import annotations

import shutil
from pathlib import Path

from gatel0rd.experiments.catalogue import catalogue
from gatel0rd.experiments.profiles import PROFILES
from gatel0rd.experiments.report import make_report
from gatel0rd.files import write_atomically

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"


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


def scene(path: Path) -> None:
    """A picture of Robot Remote Control in the middle of an episode."""
    import numpy as np
    from PIL import Image

    from gatel0rd.envs.robot_remote_control import RobotRemoteControl

    env = RobotRemoteControl(render_mode="rgb_array")
    env.reset(options={"agent": [-0.6, -0.4], "robot": [-0.5, 0.6]})
    for t in range(20):
        env.step(np.array([1.0, 0.81]) if t < 12 else np.array([0.4 * np.cos(t / 3) + 0.5, -0.8]))
    Image.fromarray(env.render()).save(path, optimize=True)


def main() -> None:
    write_atomically(DOCS / "experiments.md", experiments_page())
    scene(DOCS / "images" / "robot-remote-control.png")
    report = DOCS / "results"
    shutil.rmtree(report, ignore_errors=True)
    make_report([RESULTS], report)
    for experiment, view in (("rrc-generalization", 1), ("rrc-latents", 0)):
        found = sorted((report / "figures").glob(f"{experiment}-paper-text-{view}.png"))
        for picture in found:
            shutil.copy(picture, DOCS / "images" / f"{experiment}.png")


if __name__ == "__main__":
    main()
