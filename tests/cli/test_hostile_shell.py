"""What a hostile or careless user types, and where output goes that nobody reads or that cannot be encoded."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gatel0rd.cli.command import CommandError
from gatel0rd.cli.console import console
from gatel0rd.cli.main import COMMANDS, explain, main
from gatel0rd.errors import is_out_of_memory
from gatel0rd.files import InUseError, WriteError
from gatel0rd.streams import SPELLINGS, escape_controls, transliterate
from gatel0rd.training import TrainingError

GATEL0RD = [sys.executable, "-m", "gatel0rd"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A small table in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "d.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(80)))
    return path


@pytest.fixture
def model(table):
    main(["fit", "d.csv", "--rounds", "1", "--sparsity", "0.1", "--out", "m"])
    return table.parent / "m"


def fail(words, capsys):
    """The exit code of a command that fails, and what it says on standard error; nothing is on standard output."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(words)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return stop.value.code, shown.err.replace("\n", " ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_encoding_will_do(encoding, table):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "OMP_NUM_THREADS": "1"}
    words = ["fit", "d.csv", "--rounds", "1", "--gate-rate", "0.1", "--out", "λ→é"]
    for command in (["fit", "--help"], words):
        result = subprocess.run([*GATEL0RD, *command], env=environment, capture_output=True)
        text = result.stdout.decode(encoding)
        assert result.returncode == 0, result.stderr
        assert "lambda is adjusted" in text or "wrote lambda->" in text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_a_second_interrupt_ends_without_a_traceback():
    """As `timeout -s INT` and some schedulers send it twice."""
    script = (
        "import atexit, signal\n"
        "from gatel0rd.cli.main import COMMANDS, main\n"
        "def interrupt(): raise KeyboardInterrupt\n"
        "COMMANDS['info'] = interrupt\n"
        "atexit.register(signal.raise_signal, signal.SIGINT)\n"
        "main(['info'])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == -signal.SIGINT and "interrupted" in result.stderr and "Traceback" not in result.stderr


def test_texts_in_ascii():
    assert transliterate("λ → é … \udc80 日") == r"lambda -> e ... \udc80 \u65e5"
    assert all(transliterate(sign).isascii() for sign in SPELLINGS)
    assert escape_controls("a\x1b[31m\tb\n\x9b") == "a\\x1b[31m\tb\n\\x9b"


@pytest.mark.parametrize("name", ["[/red]", "[bold]x[/]", "[red", ":smile:", "a\x1b]0;title\x07"])
def test_markup_in_names_is_text(name, table, capsys):
    main(["fit", "d.csv", "--rounds", "1", "--sparsity", "0", "--out", name, "--json", f"{name}.json"])
    assert f"wrote {escape_controls(name)}" in capsys.readouterr().out
    assert json.loads((table.parent / f"{name}.json").read_text())["model"] == name
    code, said = fail(["segment", f"{name}[/]", "d.csv"], capsys)
    assert code == 2 and escape_controls(f"{name}[/]") in said
    console.print(name)
    assert capsys.readouterr().out == escape_controls(name) + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run rrc/gating --seeds 0-99999999", "expected at most 10000 numbers"),
        ("run rrc/gating --seeds 0-9999,10000", "expected at most 10000 numbers"),
        ("run rrc/gating --seeds 99999999999999", "none above 4294967295"),
        (f"run rrc/gating --seeds 0-{'9' * 5000}", "expected numbers and ranges"),
        ("run rrc/gating --seeds ²", "expected numbers and ranges"),
        ("run rrc/gating --epochs 10000000000", "--epochs is 10000000000; expected at most 1000000000"),
        ("plan rrc --episodes 99999999999", "--episodes is 99999999999; expected at most 1000000"),
        ("plan rrc --only 0-99999999", "episodes are '0-99999999'; expected at most"),
        ("fit d.csv --seed 99999999999999999999999", "--seed is 99999999999999999999999; expected at most 4294967295"),
        ("fit d.csv --seed -1", "--seed is -1; expected at least 0"),
        ("fit d.csv --sparsity -0.1", "--sparsity is -0.1; expected at least 0"),
        ("fit d.csv --learning-rate nan", "--learning-rate is nan; expected a finite number"),
        ("fit d.csv --hidden-size 100000000", "--hidden-size is 100000000; expected at most 65536"),
        ("segment m d.csv --apart -1", "--apart is -1; expected at least 0"),
        ("rl train MiniGrid-Empty-5x5-v0 --hidden-size 0", "--hidden-size is 0; expected at least 1"),
        ("rl train MiniGrid-Empty-5x5-v0 --seed 99999999999999", "--seed is 99999999999999; expected at most"),
        ("rl train MiniGrid-Empty-5x5-v0 --sparsity -1", "--sparsity is -1.0; expected at least 0"),
        ("rl train MiniGrid-Empty-5x5-v0 --sparsity inf", "--sparsity is inf; expected a finite number"),
    ],
)
def test_impossible_numbers_are_refused_at_once(words, message, table, capsys):
    code, said = fail(words.split(), capsys)
    assert code == 2 and message in said
    assert [path.name for path in table.parent.iterdir()] == ["d.csv"]


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_dates_outside_of_the_calendar_are_refused(date, table, capsys):
    table.write_text("time,x\n" + "".join(f"{date},{i}\n" for i in range(30)))
    code, said = fail(["fit", "d.csv"], capsys)
    assert code == 2 and "is not a time" in said


def test_slurm_needs_slurm(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["reproduce", "rrc/gating", "--profile", "smoke", "--seeds", "0", "--executor", "slurm"]
    code, said = fail([*words, "--out", str(tmp_path / "out")], capsys)
    assert code == 1 and "there is no srun here" in said


def test_a_reproduction_without_any_record_says_that_its_runs_failed(tmp_path, capsys):
    (tmp_path / "rrc").touch()  # no run can have a directory
    words = ["reproduce", "rrc/gating", "--profile", "smoke", "--seeds", "0", "--workers", "1", "--out", str(tmp_path)]
    code, said = fail([*words, "--json", str(tmp_path / "outcome.json")], capsys)
    assert code == 1 and "1 run failed, and there is no report: there are no records in" in said
    assert json.loads((tmp_path / "outcome.json").read_text())["failed"] == 1


def test_records_that_are_not_there_are_not_left_out_silently(tmp_path, capsys):
    code, said = fail(["report", "--records", str(tmp_path), str(tmp_path / "typo"), "--out", str(tmp_path)], capsys)
    assert code == 2 and f"{tmp_path / 'typo'} is not a directory; expected one with records" in said


def test_options_of_slurm_do_nothing_silently(capsys):
    words = ["reproduce", "rrc/gating", "--profile", "smoke", "--slurm", "partition=cpu", "--dry-run"]
    code, said = fail(words, capsys)
    assert code == 2 and "options of slurm are given, but the executor is local; add --executor slurm" in said


@pytest.mark.parametrize("cells", ["gatel0rd, gru", " gru,gatel0rd,"])
def test_spaces_in_lists_do_not_matter(cells, tmp_path):
    words = ["run", "rrc/generalization", "--seeds", "0", "--cells", cells, "--dry-run", "--out", str(tmp_path)]
    main([*words, "--json", str(tmp_path / "costs.json")])
    assert json.loads((tmp_path / "costs.json").read_text())["costs"][0]["runs"] == 2


@pytest.mark.parametrize("target", ["head", ">&-", "> /dev/full"])
def test_output_that_nobody_takes(target):
    """As with ``| head``, ``>&-`` and a full disk: no traceback, not at the end of the process either."""
    command = " ".join(GATEL0RD)
    script = f"set -o pipefail; {command} list | sleep 0" if target == "head" else f"{command} list {target}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    expected = {"head": (1, ""), ">&-": (0, ""), "> /dev/full": (1, "gatel0rd: [Errno 28] No space left on device\n")}
    assert (result.returncode, result.stderr) == expected[target]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), 2),
        (TrainingError("x"), 1),
        (WriteError("x"), 1),
        (InUseError("x"), 1),
        (OSError("x"), 1),
        (CommandError("x"), 1),
        (ModuleNotFoundError("x", name="x"), 1),
        (MemoryError(), 1),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1),
        (KeyboardInterrupt(), 130),
        (RuntimeError("a mistake of ours"), None),
    ],
)
def test_exit_codes(error, code, capsys):
    assert explain(error) == code
    shown = capsys.readouterr()
    assert shown.out == "" and bool(shown.err) == (code is not None)


def test_memory_errors_are_told_apart():
    assert is_out_of_memory(MemoryError()) and not is_out_of_memory(RuntimeError("memory"))


def test_every_command_has_json():
    for words, command in COMMANDS.items():
        assert "json" in inspect.signature(command).parameters, words


@pytest.mark.parametrize("file", ["/dev/stdout", "-"])
def test_json_to_standard_output_stands_alone(file):
    result = subprocess.run([*GATEL0RD, "list", "--json", file], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)[0]["id"] and "in the paper" in result.stderr


@pytest.mark.parametrize("file", ["/dev/stdout", "-", "/dev/fd/1"])
def test_json_to_a_redirected_standard_output_leaves_what_is_there(file, tmp_path):
    """As in the log of a job: the file stays the same one, and what is printed goes to standard error."""
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        result = subprocess.run([*GATEL0RD, "zoo", "--json", file], stdout=log, stderr=subprocess.PIPE, text=True)
        log.write("after\n")
    before, _, rest = (tmp_path / "log").read_text().partition("\n")
    assert result.returncode == 0 and before == "before" and rest.endswith("after\n")
    assert json.loads(rest.removesuffix("after\n")) and "wrote" not in result.stderr and "zoo:" in result.stderr


def test_json_to_another_number_of_standard_output_stands_alone():
    command = ["bash", "-c", '"$@" 3>&1', "bash", *GATEL0RD, "zoo", "--json", "/dev/fd/3"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) and "zoo:" in result.stderr


def test_json_to_a_closed_standard_output_is_an_error():
    command = [*GATEL0RD, "info", "--json", "-"]
    result = subprocess.run(["bash", "-c", '"$@" >&-', "bash", *command], capture_output=True, text=True)
    assert result.returncode == 1 and "/dev/stdout cannot be written: Bad file descriptor" in result.stderr


def test_json_says_what_was_written(model, capsys):
    main(["segment", "m", "d.csv", "--out", "e.csv", "--json", "e.json"])
    found = json.loads(Path("e.json").read_text())
    assert found["file"] == "e.csv" and found["sequences"] == 1 and found["events"] >= 0
    main(["export", "m", "--json", "x.json"])
    assert len(json.loads(Path("x.json").read_text())["files"]) == 3


@pytest.mark.parametrize(
    "out", ["d.csv", "link.csv", "hard.csv", "../here/d.csv", "m/model.json", "m/model.safetensors"]
)
@pytest.mark.parametrize(
    "words", ["segment m {data} --out {out}", "explore m {data} --save {out}", "segment m {data} --json {out}"]
)
def test_no_output_overwrites_an_input(words, out, model, capsys):
    here = model.parent
    (here / "link.csv").symlink_to("d.csv")
    os.link(here / "d.csv", here / "hard.csv")
    (here.parent / "here").unlink(missing_ok=True)
    (here.parent / "here").symlink_to(here)
    before = (here / out).read_bytes()
    for data in ("d.csv", "d*.csv"):
        line = words.format(data=data, out=out)
        code, said = fail(line.split(), capsys)
        assert code == 2 and "which it would overwrite" in said
    assert (here / out).read_bytes() == before and not (here / "events.csv").exists()


def test_two_outputs_are_two_files(model, capsys):
    code, said = fail(["segment", "m", "d.csv", "--out", "e.json", "--json", "./e.json"], capsys)
    assert code == 2 and "--out and --json are both" in said


def test_more_rounds_continue_as_advised(table, capsys):
    words = ["fit", "d.csv", "--gate-rate", "0.4", "--out", "m", "--rounds"]
    main([*words, "2"])
    main([*words, "3"])
    assert "it was given more rounds after 2" in capsys.readouterr().out.replace("\n", " ")
    code, said = fail([*words, "2"], capsys)
    assert code == 2 and "holds a fit of 3 rounds" in said
