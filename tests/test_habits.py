"""Files around the code agree with each other: versions, targets of make, pinned packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gatel0rd

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pinned() -> dict[str, str]:
    """Package -> its version in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_every_dependency_is_pinned_to_a_version_that_is_asked_for():
    extras = PROJECT["project"]["optional-dependencies"]
    texts = [*PROJECT["project"]["dependencies"], *(text for extra in extras.values() for text in extra)]
    wanted = [requirement for requirement in map(Requirement, texts) if requirement.name != "gatel0rd"]
    assert len(wanted) > 20
    for requirement in wanted:
        version = pinned()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}, but constraints.txt has {version}"


def test_every_extra_is_part_of_dev():
    """Directly, or through another extra."""
    extras = PROJECT["project"]["optional-dependencies"]

    def included(name: str) -> set[str]:
        own = [Requirement(text) for text in extras[name]]
        inner = {extra for requirement in own if requirement.name == "gatel0rd" for extra in requirement.extras}
        return {name}.union(*map(included, inner))

    assert included("dev") == set(extras)


def test_one_version_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == gatel0rd.__version__
    assert f"## [{gatel0rd.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (ruff,) = (repository for repository in hooks if "ruff" in repository["repo"])
    assert ruff["rev"] == f"v{pinned()['ruff']}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_exists(workflow):
    words = "\n".join(commands(workflow))
    assert set(re.findall(r"\bmake ([a-z]+)", words)) <= make_targets()
    for script in re.findall(r"scripts/[\w-]+", words):
        assert (ROOT / script).exists(), script
    for action in re.findall(r"uses: (\S+)", workflow.read_text()):
        assert re.search(r"@v\d+$", action), f"{action} has no major version"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"])
def test_pages_name_targets_and_files_that_exist(page):
    path = ROOT / page
    text = path.read_text()
    assert set(re.findall(r"(?:^\$ |`)make ([a-z]+)", text, re.MULTILINE)) <= make_targets()
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / link).exists(), f"{page} links to {link}"


def test_every_room_is_described():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = {path.name for path in (ROOT / "src" / "gatel0rd").iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)) - {"slow", "browser", "cluster"}


def test_markers_are_explained():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]:
        assert f"| `{marker.partition(':')[0]}` |" in text
