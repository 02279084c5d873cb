from __future__ import annotations

import html
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gatel0rd.cli.agents import format_return
from gatel0rd.cli.console import format_duration
from gatel0rd.cli.extras import advise, distribution_of, find_extra
from gatel0rd.cli.main import COMMANDS, GROUPS, main
from gatel0rd.cli.options import parse_names, parse_numbers, parse_options, parse_seeds
from gatel0rd.models.events import APART
from gatel0rd.paper.plan import experiments, find, plan

ROOT = Path(__file__).parents[2]


def test_help_needs_no_heavy_module():
    """`gatel0rd --help` starts at once because it imports neither torch nor matplotlib nor gymnasium."""
    code = (
        "import sys\nfrom gatel0rd.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit as stop: assert not stop.code\n"
        "heavy = ('torch', 'numpy', 'matplotlib', 'gymnasium')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"
    for command in ("list", "run", "report", "data", "demo"):
        assert command in result.stdout


@pytest.mark.parametrize("words", ["", *GROUPS, *COMMANDS])
def test_help_fits_80_columns_and_is_made_of_sentences(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*words.split(), "--help"])
    usage, *lines = capsys.readouterr().out.splitlines()
    assert usage.startswith(" ".join(["usage: gatel0rd", *words.split()]).rstrip())
    assert all(len(line) <= 80 for line in lines)
    if words in COMMANDS:
        parts = (COMMANDS[words].__doc__ or "").strip().split("\n\n")
        assert all(part.strip().endswith(".") for part in parts)
    text = " ".join(line.strip("│ ") for line in lines if "─" not in line)
    assert not re.search(r"goes on|go on|beside|so many|shall|\bWho\b|default: (None|\))", text)


def test_every_option_has_a_sentence_of_help():
    for words, command in COMMANDS.items():
        for name, hint in get_type_hints(command, include_extras=True).items():
            texts = [text for text in texts_of(hint) if text]
            assert name == "return" or texts, (words, name)
            assert all(text[0].isupper() and text.endswith(".") and len(text.split()) > 2 for text in texts), texts


def texts_of(hint):
    """The help texts in a type with annotations, nested ones as well."""
    found = [getattr(entry, "help", None) for entry in getattr(hint, "__metadata__", ())]
    return found + [text for part in get_args(hint) if hasattr(part, "__metadata__") for text in texts_of(part)]


def test_the_overview_has_a_line_for_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = re.findall(r"• (\S+)", capsys.readouterr().out)
    assert shown == list(dict.fromkeys(words.split()[0] for words in COMMANDS))


def test_the_help_names_the_librarys_default(capsys):
    with pytest.raises(SystemExit):
        main(["segment", "--help"])
    assert f"The default is {APART}." in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have a screen")
def test_films_are_drawn_without_a_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "restored")
    for screen, expected in (("", "dummy"), (":0", None)):
        del os.environ["SDL_VIDEODRIVER"]
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", screen)
        main(["list", "--json", os.devnull])
        assert os.environ.get("SDL_VIDEODRIVER") == expected


def test_list_as_table_and_as_json(tmp_path, capsys):
    main(["list"])
    assert "rrc/generalization" in capsys.readouterr().out
    main(["list", "--json", str(tmp_path / "list.json")])
    entries = json.loads((tmp_path / "list.json").read_text())
    assert {"id", "artefacts", "core_seconds_per_seed"} <= entries[0].keys()


@pytest.mark.slow
def test_run_report_and_again(tmp_path, capsys):
    words = ["run", "rrc/generalization", "--profile", "smoke", "--cells", "gatel0rd,elman", "--seeds", "0-1"]
    main([*words, "--workers", "2", "--out", str(tmp_path)])
    assert "4 runs, 0 of them finished before" in capsys.readouterr().out
    main([*words, "--out", str(tmp_path)])
    assert "4 runs, 4 of them finished before" in capsys.readouterr().out
    main(["report", "rrc/generalization", "rrc/loss", "--out", str(tmp_path)])
    page = html.unescape((tmp_path / "report.html").read_text())
    assert "2 of the paper's 20 seeds" in page
    assert "0.0011 ± 0.0007" in page
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 4
    assert "Elman RNN" in (tmp_path / "report.md").read_text()


def test_data_make_writes_every_split(tmp_path, capsys):
    main(["data", "make", "rrc/random", "--sequences", "20", "--out", str(tmp_path)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"rrc-random-{split}-text-20x50-seed0.safetensors" for split in ("test", "train", "validation")]
    assert "20 sequences" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "rrc/latent"], "did you mean 'rrc/latents'?"),
        (["run", "rrc/gating", "--seeds", "a-b"], "seeds are 'a-b'; expected numbers and ranges"),
        (["run", "rrc/gating", "--seeds", "4-0"], "seeds are '4-0'; expected numbers and ranges"),
        (["run", "rrc/gating", "--epochs", "0"], "epochs is 0; expected at least 1"),
        (["run", "rrc/gating", "--workers", "-1"], "workers is -1; expected at least 1"),
        (["run", "rrc/gating", "--cells", "gru"], "rrc/gating has no cell or variant gru"),
        (["run", "rrc/gating", "--profile", "tiny"], "there is no profile 'tiny'"),
        (["data", "make", "chess"], "there is no world 'chess'"),
        (["data", "make", "rrc/best"], "rrc has no policy 'best'"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_report_without_records_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["report", "--out", str(tmp_path)])
    assert "make some with `gatel0rd run`" in capsys.readouterr().err.replace("\n", " ")


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SystemExit):
        main(["demo", "--out", str(tmp_path)])
    assert "PIL is missing; pip install 'gatel0rd[envs]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # before anything is trained


def test_the_advised_extra_is_one_that_brings_the_module():
    """For every requirement of every extra, as pyproject.toml has it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, requirements in extras.items():
        for requirement in requirements:
            distribution = re.match(r"[\w.-]+", requirement)[0]
            if distribution == "gatel0rd":
                continue
            extra = find_extra(distribution.replace("-", "_"))
            brought = [re.match(r"[\w.-]+", entry)[0] for entry in extras[extra]]
            assert distribution in brought, (name, requirement, extra)
    assert find_extra("PIL") == "envs" and find_extra("pygame.display") == "human" and find_extra("h5py") == "own"
    assert distribution_of("gymnasium_robotics.envs") == "gymnasium-robotics"


@pytest.mark.parametrize("name", ["fcntl", "gatel0rd.nothing", "gatel0rd", "torch"])
def test_no_extra_is_advised_for_what_none_brings(name):
    assert find_extra(name) is None
    assert "pip install" not in advise(ModuleNotFoundError(f"No module named {name!r}", name=name))


def test_documents_name_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {name for page in pages for name in re.findall(r"""(?:gatel0rd|"\.)\[([a-z0-9,]+)\]""", page.read_text())}
    assert {"demo", "fast"} <= named
    assert {part for name in named for part in name.split(",")} <= set(extras)


@pytest.mark.slow
def test_interrupted_from_the_keyboard_and_resumed(tmp_path):
    command = [sys.executable, "-m", "gatel0rd.cli.main", "run", "rrc/gating", "--profile", "smoke", "--epochs", "400"]
    command += ["--out", str(tmp_path), "--workers", "2"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a test run in the background ignores Ctrl-C, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stdout:
        if "epoch" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)  # a busy machine takes its time
    assert process.returncode == 130
    assert "resume from their last checkpoints with --resume" in said
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "holds an unfinished run; continue it with --resume" in result.stdout


@pytest.mark.parametrize(("text", "seeds"), [("0", [0]), ("0-4", [0, 1, 2, 3, 4]), ("3,0-1,3", [3, 0, 1])])
def test_seed_lists(text, seeds):
    assert parse_numbers(text) == seeds


@pytest.mark.parametrize(
    ("seconds", "text"), [(3, "3 s"), (600, "10 min"), (3500, "58 min"), (3599, "1.0 h"), (7200, "2.0 h")]
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_the_package_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gatel0rd", "info"])
    runpy.run_module("gatel0rd", run_name="__main__")
    assert "engine:" in capsys.readouterr().out


@pytest.mark.slow
def test_reproduce_does_what_is_missing_once_and_reports(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gatel0rd.planning.icem.ICEMConfig.sample_counts", [12, 10])
    words = ["reproduce", "shepherd/gating", "shepherd/planning", "--profile", "smoke", "--seeds", "0"]
    main([*words, "--workers", "1", "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "4 runs, 0 of them finished before" in shown  # GateL0RD's is shared
    page = (tmp_path / "report.html").read_text()
    assert "shepherd/gating" in page and "shepherd/planning" in page
    records = [json.loads(path.read_text()) for path in tmp_path.rglob("record.json")]
    assert len(records) == 4 and all("planning" in record for record in records)
    main([*words, "--out", str(tmp_path)])
    assert "4 runs, 4 of them finished before" in capsys.readouterr().out
    for wrong in (["reproduce"], ["reproduce", "rrc/gating", "--all"]):
        with pytest.raises(SystemExit):
            main(wrong)
        assert "expected the ids of experiments, or --all" in capsys.readouterr().err


def test_a_dry_run_says_what_it_would_cost_and_runs_nothing(tmp_path, capsys):
    main(["reproduce", "rrc/generalization", "--profile", "paper", "--dry-run", "--out", str(tmp_path / "runs")])
    shown = capsys.readouterr().out
    assert "What would be run" in shown and "core hours in all" in shown and not (tmp_path / "runs").exists()


def test_a_dry_run_of_one_experiment_names_the_runs_that_are_left(tmp_path, capsys):
    words = ["run", "rrc/planning", "--profile", "smoke", "--seeds", "0-1", "--cells", "gru", "--out", str(tmp_path)]
    main([*words, "--dry-run", "--json", str(tmp_path / "before.json")])
    assert not (tmp_path / "rrc").exists()
    main([word.replace("0-1", "1") for word in words])
    main([*words, "--dry-run", "--json", str(tmp_path / "after.json")])
    ((before,), (after,)) = (
        json.loads((tmp_path / f"{time}.json").read_text())["costs"] for time in ("before", "after")
    )
    first, second = before["left"]
    assert (before["runs"], before["finished"], after["runs"], after["finished"]) == (2, 0, 2, 1)
    assert after["left"] == [first] and (tmp_path / second / "record.json").exists()
    assert after["core_seconds"] == after["longest_seconds"] == before["core_seconds"] / 2


def test_the_papers_seeds_are_each_experiments_own_and_cost_what_the_guide_says(tmp_path, capsys):
    words = ["reproduce", "--all", "--profile", "paper", "--seeds", "paper", "--dry-run", "--out", str(tmp_path / "r")]
    main(words)
    shown = capsys.readouterr().out
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cluster.md").read_text()
    table = guide.partition("<!-- costs -->")[2].partition("<!-- end of costs -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    for world, runs, hours, longest, _ in rows[:-1]:
        (line,) = (line for line in shown.splitlines() if line.split()[:1] == [world])
        assert line.split() == [world, runs, "0", *f"{hours} h {longest}".split()]
    assert f"{rows[-1][2]} core hours in all" in shown and int(rows[-1][1]) == sum(int(row[1]) for row in rows[:-1])
    seeds = {id: {run.seed for run in plan(find(id), profile="paper", seeds=None)} for id in experiments()}
    assert all(own == set(range(experiments()[id].seeds)) for id, own in seeds.items())
    assert len({len(own) for own in seeds.values()}) > 1


def test_seeds_that_are_no_seeds_are_errors():
    assert parse_seeds("paper") is None and parse_seeds("0,2") == [0, 2]
    with pytest.raises(
        ValueError, match=r"seeds are 'papre'; expected numbers and ranges, as in 0-4 or 0,3,7, or paper"
    ):
        parse_seeds("papre")


def test_figures_without_runs_are_drawn(tmp_path, capsys):
    main(["reproduce", "figures/world-model", "--out", str(tmp_path)])
    assert (tmp_path / "figures" / "figures-world-model.png").exists()
    page = (tmp_path / "report.html").read_text()
    assert "World model (Fig. 1)" in page and "finished runs" not in page


def test_names():
    assert parse_names(" a, b c,,d ") == ("a", "b c", "d") and parse_names(None) == ()


@pytest.mark.parametrize(("text", "options"), [(None, {}), ("a=1, b=x=y", {"a": "1", "b": "x=y"})])
def test_options(text, options):
    assert parse_options(text) == options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "rrc/gating", "--slurm", "partition"], "expected names and values"),
        (["reproduce", "rrc/gating", "--profile", "huge"], "there is no profile 'huge'"),
        (["fit", "none.csv"], "there is no none.csv; expected .npz"),
        (["fit", "empty.csv"], "empty.csv is empty"),
        (["fit", "text.csv"], "'two' in column 'x' is not a number"),
        (["fit", "good.csv", "--out", "good.csv"], "good.csv is a file; expected the name of a directory"),
        (["fit", "good.csv", "--gate-rate", "2"], "gate_rate is 2.0; expected a share"),
        (["fit", "good.csv", "--events", "1", "--sparsity", "0.1"], "both --events and --sparsity were given"),
        (["segment", "nowhere", "good.csv"], "expected a directory that `gatel0rd fit`"),
        (["explore", "nowhere"], "expected a directory that `gatel0rd fit`"),
        (["export", "nowhere"], "expected a directory that `gatel0rd fit`"),
        (["segment-benchmark", "."], "there is no finished run of GateL0RD below ."),
    ],
)
def test_own_data_errors_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "text.csv").write_text("x\n1\ntwo\n3\n")
    (tmp_path / "good.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(80)))
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_model_remembers_how_its_data_was_laid_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"s{who},{step},{(step * (who + 2)) % 11},hello\n" for who in range(6) for step in range(30)]
    (tmp_path / "data.csv").write_text("who,tick,level,note\n" + "".join(rows))
    words = ["fit", "data.csv", "--sequence", "who", "--time", "tick", "--ignore", "note", "--rounds", "2"]
    words += ["--gate-rate", "0.05"]
    main([*words, "--out", "model"])
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "6 sequences, 30 steps each" in shown and "the gates are not as active as you asked for" in shown
    main(["segment", "model", "data.csv", "--out", "events.json"])
    assert "in 6 sequences" in capsys.readouterr().out
    assert [entry["sequence"] for entry in json.loads((tmp_path / "events.json").read_text())] == [
        f"s{who}" for who in range(6)
    ]
    main(["export", "model", "--out", "onnx"])
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir()) == ["initial.onnx", "sequence.onnx", "step.onnx"]
    main(
        [
            "fit",
            "data.csv",
            "--sequence",
            "who",
            "--ignore",
            "note,tick",
            "--cell",
            "gru",
            "--rounds",
            "1",
            "--out",
            "gru",
        ]
    )
    assert "segment will use: changes" in capsys.readouterr().out  # there are no gates
    main(["segment", "gru", "data.csv"])
    said = capsys.readouterr().out
    (count,) = re.findall(r"^\d+ boundaries in (\d+) sequences, by changes; wrote events.csv$", said, re.MULTILINE)
    assert int(count) > 5 and f"  … and {int(count) - 5} more sequence" in said  # the first five are shown
    with pytest.raises(SystemExit):
        main(["segment", "gru", "data.csv", "--method", "gates"])
    assert "which has no gates" in capsys.readouterr().err


def test_info_says_which_engine_is_active(capsys, tmp_path):
    main(["info", "--json", str(tmp_path / "info.json")])
    assert "engine: native" in capsys.readouterr().out
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["engine"] == "native" and found["instruction_set"] in found["available"] and found["why"]


@pytest.mark.parametrize("words", [["control", "NeedsMore-v0"], ["rl", "train", "NeedsMore-v0"]])
def test_what_gymnasium_says_is_missing_is_an_error_without_a_traceback(words, capsys, tmp_path, monkeypatch):
    import gymnasium

    def make(**options):
        raise gymnasium.error.DependencyNotInstalled('Box2D is not installed; pip install "gymnasium[box2d]"')

    monkeypatch.chdir(tmp_path)
    gymnasium.register("NeedsMore-v0", entry_point=make)
    try:
        with pytest.raises(SystemExit) as stop:
            main(words)
    finally:
        del gymnasium.registry["NeedsMore-v0"]
    assert stop.value.code == 1 and list(tmp_path.iterdir()) == []
    assert 'pip install "gymnasium[box2d]"' in " ".join(capsys.readouterr().err.split())


def test_actions_out_of_reach_are_refused_before_anything_is_written(capsys, tmp_path, monkeypatch):
    import gymnasium

    def make(**options):
        far = gymnasium.spaces.Box(100, 200, (1,))
        return gymnasium.wrappers.TransformAction(gymnasium.make("Pendulum-v1"), lambda action: action, far)

    monkeypatch.chdir(tmp_path)
    gymnasium.register("FarPendulum-v0", entry_point=make)
    try:
        with pytest.raises(SystemExit) as stop:
            main(["rl", "train", "FarPendulum-v0", "--frames", "2048"])
    finally:
        del gymnasium.registry["FarPendulum-v0"]
    assert stop.value.code == 2 and list(tmp_path.iterdir()) == []
    assert "actions of FarPendulum-v0 are 100 to 200" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.1235"), (-129.34, "-129.3"), (-1293.4, "-1293"), (-12934.4, "-12934"), (float("nan"), "nan")],
)
def test_returns_are_written_out(value, text):
    assert format_return(value) == text
