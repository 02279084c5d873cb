"""The documentation runs, names what exists, and is up to date."""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gatel0rd.cli.main import main
from gatel0rd.paper.plan import experiments
from gatel0rd.paper.records import load_records
from gatel0rd.paper.report.front import verdicts_markdown
from gatel0rd.paper.report.judge import judge_all
from gatel0rd.paper.report.make import make_report
from gatel0rd.paper.schema import KINDS, parse_run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", DOCS / "index.md", *sorted((DOCS / "guides").glob("*.md"))]
TEXTS = [*PAGES, *sorted(DOCS.glob("*.md")), *sorted((DOCS / "api").glob("*.md"))]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_tutorial_on_own_data_runs_as_it_is_written(tmp_path, monkeypatch):
    """Python and commands in their order; only the page that waits for a browser is left out."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "guides" / "own-data.md").read_text()
    names: dict = {}
    for language, block in re.findall(r"```(python|console)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(compile(block, "own-data.md", "exec"), names)
            continue
        for command in re.findall(r"^\$ gatel0rd (.*)$", block, re.MULTILINE):
            if not command.startswith("explore") or "--save" in command:
                main(shlex.split(command))
    events = (tmp_path / "events.csv").read_text().splitlines()
    assert events[0] == "sequence,time,duration,dimensions,strengths" and len(events) > 60
    assert (tmp_path / "tank.html").stat().st_size > 1e6
    assert (tmp_path / "tank-model" / "onnx" / "sequence.onnx").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_real_data_is_fitted_and_segmented(tmp_path):
    example = runpy.run_path(str(ROOT / "examples" / "macroeconomics.py"))
    found = example["run"](tmp_path, rounds=30)
    assert all(1959 <= time <= 2010 for time in found)
    assert (tmp_path / "macro.html").exists() and (tmp_path / "model" / "model.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "own-data.md"], ids=lambda page: page.name)
def test_examples_run(page, tmp_path):
    """In a process of their own, so that nothing is imported or registered but by them."""
    script = tmp_path / "examples.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)))
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_pictures_exist(page):
    for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_links_lead_to_committed_files(page):
    for link in re.findall(r"(?<!!)\[[^]]*\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link
    assert "docs/results" not in page.read_text()  # made by `make docs`, not committed


def test_the_index_and_the_menu_have_every_guide():
    index, menu = (ROOT / "docs" / "index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    for guide in (ROOT / "docs" / "guides").glob("*.md"):
        assert f"(guides/{guide.name})" in index and f"guides/{guide.name}" in menu, guide.name


def test_the_generated_page_of_experiments_is_up_to_date():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert (ROOT / "docs" / "experiments.md").read_text() == generate["experiments_page"](), "run `make docs`"


@pytest.mark.slow
def test_the_verdicts_in_the_readmes_are_those_of_the_records():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    judged = judge_all(list(experiments().values()), load_records([ROOT / "results"]))
    assert generate["verdicts_in_short"](judged).strip() in (ROOT / "README.md").read_text(), "run `make docs`"
    assert verdicts_markdown(judged).strip() in (ROOT / "results" / "README.md").read_text(), "run `make docs`"
    assert generate["numbers_markdown"]().strip() in (ROOT / "results" / "README.md").read_text(), "run `make docs`"
    assert generate["costs_table"]() in (ROOT / "docs" / "guides" / "cluster.md").read_text(), "run `make docs`"


def test_the_tables_of_speed_are_those_of_the_measurements():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    short, whole = generate["speed"](short=True), generate["speed"]()
    assert short in (ROOT / "README.md").read_text(), "run `make docs`"
    assert whole in (ROOT / "benchmarks" / "README.md").read_text(), "run `make docs`"
    assert set(short.splitlines()) < set(whole.splitlines())
    assert (
        "compared with `nn.GRU`" in short and "while another process keeps a core busy" in short
    )  # where we lose, too


def test_the_readme_shows_the_headline_only_with_its_figure():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    text = (ROOT / "README.md").read_text()
    between = text.partition("<!-- headline -->")[2].partition("<!-- end of headline -->")[0].strip()
    assert between == generate["headline"](), "run `make docs`"
    assert bool(between) == (ROOT / "docs" / "images" / generate["HEADLINE"]).exists()


def test_the_readme_installs_before_it_uses():
    headings = re.findall(r"^## (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert headings[0] == "Install"
    assert "gatel0rd " not in "".join(
        re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text().partition("## Install")[0], re.DOTALL)
    )


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("README.md", "headline"),
        ("docs/guides/sparsity.md", "lambda_table"),
        ("docs/guides/agents.md", "agents_table"),
    ],
)
def test_tables_of_memory_are_those_of_the_records(page, table):
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert generate[table]().strip() in (ROOT / page).read_text(), "run `make docs`"


def test_the_paper_map_names_what_exists():
    text = (ROOT / "docs" / "paper_map.md").read_text()
    for experiment_id in experiments():
        assert f"`{experiment_id}`" in text
    assert set(re.findall(r"`((?:rrc|billiard|shepherd|fetch|fetch-diverse|minigrid)/[a-z0-9-]+)`", text)) <= set(
        experiments()
    )
    rooms = r"`((?:engine|nn|models|training|planning|worlds|recordings|paper)(?:\.\w+)+)`"
    for path in set(re.findall(rooms, text)):
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            try:
                found = importlib.import_module("gatel0rd." + ".".join(parts[:length]))
                break
            except ModuleNotFoundError:
                continue
        for name in parts[length:]:
            found = getattr(found, name)


@pytest.mark.slow
def test_the_committed_records_make_a_report(tmp_path):
    shown = ("rrc/planning", "shepherd/planning", "billiard/gating", "fetch/gating")  # make docs shows all
    page = make_report([ROOT / "results"], tmp_path, shown, light=tmp_path / "light.html").read_text()
    light = (tmp_path / "light.html").read_text()  # the same page with pictures that are smaller
    without_pictures = [re.sub(r'src="data:image/[^"]*"', "", text) for text in (page, light)]
    assert without_pictures[0] == without_pictures[1] and len(light) < len(page) / 3
    for record in load_records([ROOT / "results"]):
        run = parse_run(record.content, record.path, KINDS[record.kind])
        assert record.path.parent.name == run.directory_name.partition("/")[2] and record.group == run.group
    for scenario in ("Robot Remote Control", "Billiard Ball", "Shepherd", "Fetch Pick&amp;Place"):
        assert scenario in page


def test_every_artefact_of_the_registry_is_in_the_paper_map():
    text = (ROOT / "docs" / "paper_map.md").read_text()
    for experiment in experiments().values():
        for figure in re.findall(r"Fig\. (\d+)", " ".join(experiment.artefacts)):
            assert re.search(rf"^\| {figure}\D", text, re.MULTILINE), figure
