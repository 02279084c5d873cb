"""Records of older versions keep their numbers and get this version's identity, of which all fields are part."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from gatel0rd.cli.main import main
from gatel0rd.config import content_hash, to_json
from gatel0rd.files import FileError, load_arrays, read_json, save_arrays
from gatel0rd.paper import run as run_module
from gatel0rd.paper import schema
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.execute import find_run
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.executors.coordinator import run_all
from gatel0rd.paper.migrate import migrate
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.records import load_records
from gatel0rd.paper.run import SCHEMA
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.planning import ICEMConfig

OLD = Path(__file__).parent / "old_records"
"""Two records as the first version wrote them, in directories as it named them, cut down to a few numbers."""
RUNS = {
    "rrc": plan(find("rrc/gating"), profile="paper", seeds=[3])[0],
    "minigrid": plan(
        find("minigrid/doorkey"), profile="quick", seeds=[2], frames=1_500_000, preset="tuned", cells=["lstm"]
    )[0],
}
"""The same runs, as this version plans them."""
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def contents(directory):
    return {str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*.json"))}


@pytest.mark.parametrize("scenario", RUNS)
def test_an_old_record_becomes_one_of_this_version_with_the_same_numbers(old, scenario):
    (before,) = (read_json(path) for path in old.glob(f"{scenario}/*/record.json"))
    assert migrate(old) == (2, 2)
    run = RUNS[scenario]
    assert [path.name for path in (old / scenario).iterdir()] == [Path(run.directory_name).name]
    after = read_json(old / run.directory_name / "record.json")
    described = ("schema", "kind", "run", "group")
    assert {name: after[name] for name in described} == {
        "schema": SCHEMA,
        "kind": run.kind,
        "run": to_json(run),
        "group": run.group,
    }
    assert [(name, after[name]) for name in before if name not in described] == [
        (name, before[name]) for name in before if name not in described
    ]
    assert before["group"] != after["group"]


def test_recipes_that_had_no_version_yet_were_of_the_first(old):
    (path,) = old.glob("rrc/*/record.json")
    text = path.read_text()
    path.write_text(text.replace(', "version": 1', ""))
    assert path.read_text() != text
    migrate(old)
    assert (old / RUNS["rrc"].directory_name / "record.json").exists()


def test_a_second_migration_changes_nothing(old):
    migrate(old)
    once = contents(old)
    assert migrate(old) == (0, 2) and contents(old) == once


def test_records_are_copied_elsewhere_and_the_source_is_left_alone(old, tmp_path):
    before = contents(old)
    assert migrate(old, tmp_path / "new") == (2, 2) and contents(old) == before
    assert migrate(old, tmp_path / "new") == (0, 2)
    assert sorted(record.group for record in load_records([tmp_path / "new"])) == sorted(
        run.group for run in RUNS.values()
    )
    (path,) = old.glob("rrc/*/record.json")
    planned = {"epochs": [10], "success": [0.5]}
    path.write_text(json.dumps(read_json(path) | {"planning": planned}))  # it was planned with since
    assert migrate(old, tmp_path / "new") == (1, 2)
    written = read_json(tmp_path / "new" / RUNS["rrc"].directory_name / "record.json")
    assert written["planning"] == planned


def test_a_record_that_was_planned_with_is_not_replaced_by_one_that_was_not(old, tmp_path):
    migrate(old, tmp_path / "new")
    path = tmp_path / "new" / RUNS["rrc"].directory_name / "record.json"
    planned = read_json(path) | {"planning": {"epochs": [10], "success": [0.5]}, "wall_seconds": 1.0}
    path.write_text(json.dumps(planned))
    assert migrate(old, tmp_path / "new") == (0, 2) and read_json(path) == planned


@pytest.mark.slow
def test_measures_of_this_version_are_added_from_the_runs_model(tmp_path, monkeypatch):
    (run,) = plan(find("rrc/gating"), profile="smoke", seeds=[0])
    path = run.execute(tmp_path / "runs") / "record.json"
    whole = read_json(path)
    assert whole["measures"]["latents"]["control"]["with"]["sequences"] > 0
    old = whole | {"measures": {name: value for name, value in whole["measures"].items() if name != "latents"}}
    path.write_text(json.dumps(old))
    (tmp_path / "runs" / "alone").mkdir()  # a record without a model, of another seed
    other = old | {"run": old["run"] | {"seed": 1}}
    (tmp_path / "runs" / "alone" / "record.json").write_text(json.dumps(other))
    assert migrate(tmp_path / "runs", tmp_path / "new", measure=True) == (2, 2)
    written = tmp_path / "new" / run.directory_name / "record.json"
    found = read_json(written)
    assert found["code"].pop("measured") == whole["code"]["commit"] and found == whole
    assert read_json(tmp_path / "new" / "alone" / "record.json") == other
    monkeypatch.setattr("gatel0rd.paper.execute.load_model", None)  # what was measured once is not measured again
    assert migrate(tmp_path / "runs", tmp_path / "new", measure=True) == (0, 2)
    monkeypatch.undo()
    assert migrate(tmp_path / "runs", measure=True) == (1, 2)
    assert read_json(path) == read_json(written)


def test_an_interrupted_migration_is_completed(old):
    (directory,) = old.glob("rrc/*")
    directory.rename(old / RUNS["rrc"].directory_name)  # and then the power failed
    assert migrate(old) == (2, 2)
    assert {record.group for record in load_records([old])} == {run.group for run in RUNS.values()}


def test_directories_with_a_name_of_ones_own_keep_it(old):
    (directory,) = old.glob("minigrid/*")
    directory.rename(old / "my-agent")
    migrate(old)
    assert read_json(old / "my-agent" / "record.json")["group"] == RUNS["minigrid"].group


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[:100], "is not a record"),
        (lambda text: "[]", "is not a record"),
        (lambda text: json.dumps({"name": "of other software"}), "is not a record"),
        (lambda text: json.dumps({"group": "x", "run": {"epochs": 3}}), "is not a record or model of a run"),
        (lambda text: json.dumps(json.loads(text) | {"schema": 99}), "has schema 99; this version reads 1 to"),
        (
            lambda text: text.replace('"paper_epochs": 5000', '"paper_age": 5000'),
            "does not hold a run of this version .*paper_age",
        ),
        (lambda text: text.replace('"clip_norm": 0.1, ', ""), "lacks train.clip_norm of its run"),
    ],
)
def test_a_broken_or_foreign_record_is_named_and_nothing_is_changed(old, spoil, message):
    (path,) = old.glob("rrc/*/record.json")
    path.write_text(spoil(path.read_text()))
    before = contents(old)
    with pytest.raises(FileError, match=f"{path} {message}"):
        migrate(old)
    assert contents(old) == before


def test_two_directories_of_the_same_run_are_an_error(old):
    (directory,) = old.glob("rrc/*")
    (old / RUNS["rrc"].directory_name).mkdir()
    with pytest.raises(FileError, match="exists already; delete one of them"):
        migrate(old)
    with pytest.raises(FileError, match="is not a directory; give one with records"):
        migrate(directory / "record.json")


def test_the_command_says_what_it_did(old, tmp_path, capsys):
    main(["migrate", str(old), "--to", str(tmp_path / "new")])
    assert f"2 of 2 records were written to {tmp_path / 'new'}" in capsys.readouterr().out.replace("\n", " ")
    main(["migrate", str(old)])
    main(["migrate", str(old)])
    assert "0 of 2 records were brought up to date" in capsys.readouterr().out


def test_reports_ask_for_migration(old):
    with pytest.raises(FileError, match=rf"has schema 1; this version reads {SCHEMA}: .*`gatel0rd migrate {old}`"):
        load_records([old])


def test_what_an_older_version_finished_is_not_repeated(old):
    with pytest.raises(FileError, match="has schema 1"):
        run_all([RUNS["rrc"]], Work(out=old), executor=ExecutorConfig(workers=1), display=None)
    migrate(old)
    assert Work(out=old).remaining_seconds(RUNS["rrc"]) == 0


def test_models_of_older_versions_still_say_what_run_they_are_of(old, tmp_path):
    (path,) = old.glob("rrc/*/record.json")
    run = read_json(path)["run"]
    save_arrays(tmp_path / "model.safetensors", {}, kind="model", metadata={"run": run})
    assert find_run(tmp_path / "model.safetensors") == RUNS["rrc"]
    agent = load_arrays(tmp_path / "model.safetensors", kind="model")[1] | schema.describe_run(RUNS["minigrid"])
    save_arrays(tmp_path / "agent.safetensors", {}, kind="model", metadata=agent)
    with pytest.raises(FileError, match="is of a run of the kind agent; expected world model"):
        find_run(tmp_path / "agent.safetensors")


def test_a_changed_default_is_another_configuration():
    @dataclass(frozen=True, kw_only=True)
    class Before:
        size: int
        rate: float = 0.1

    @dataclass(frozen=True, kw_only=True)
    class After:
        size: int
        rate: float = 0.2

    assert content_hash(Before(size=3)) != content_hash(After(size=3))
    assert (
        content_hash(Before(size=3)) == content_hash(After(size=3, rate=0.1)) == content_hash(Before(size=3, rate=0.1))
    )


def changed(value):
    """Another value of the same type."""
    if is_dataclass(value):
        return replace(value, **{fields(value)[0].name: changed(getattr(value, fields(value)[0].name))})
    if isinstance(value, tuple):
        return (changed(value[0]), *value[1:]) if value else ("more",)
    return f"{value}x" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize("scenario", RUNS)
def test_every_field_is_part_of_the_identity_except_seed_and_scale(scenario):
    run = RUNS[scenario]
    for field in fields(run):
        other = replace(run, **{field.name: changed(getattr(run, field.name) or 0)})
        assert (other.group == run.group) == (field.name in ("seed", "profile", "length_override")), field.name


@pytest.mark.parametrize("scenario", RUNS)
def test_a_new_schema_is_a_new_identity(scenario, monkeypatch):
    before = RUNS[scenario].group
    monkeypatch.setattr(run_module, "SCHEMA", SCHEMA + 1)
    assert RUNS[scenario].group != before


def test_a_field_that_is_added_or_renamed_is_migrated_by_its_schema(monkeypatch):
    """What the next change will look like: raise SCHEMA, name the renamed fields, fill in the new one."""

    def from_2(content):
        content["run"]["train"]["warmup"] = 0  # what runs did before there was a choice
        return content

    monkeypatch.setattr(schema, "SCHEMA", SCHEMA + 1)
    monkeypatch.setitem(schema.STEPS, SCHEMA, from_2)
    monkeypatch.setitem(
        schema.RENAMED, SCHEMA + 1, {"train": {"clip_norm": "max_norm"}, "": {"paper_epochs": "epochs_of_paper"}}
    )
    content = schema.describe_run(RUNS["rrc"]) | {"schema": SCHEMA, "final": {"test": {"clip_norm": 1.0}}}
    later = schema.upgrade(content, Path("record.json"))
    assert later["schema"] == SCHEMA + 1 and later["final"] == content["final"]
    assert later["run"]["train"]["max_norm"] == 0.1 and later["run"]["train"]["warmup"] == 0
    assert "clip_norm" not in later["run"]["train"] and later["run"]["epochs_of_paper"] == 5000
    assert "warmup" not in content["run"]["train"]  # what was read is left as it was
    assert schema.upgrade(later, Path("record.json")) is later


def names_of(kind, place=""):
    """Every field of a configuration and of those inside it."""
    found = []
    for name, hint in get_type_hints(kind).items():
        if name not in {field.name for field in fields(kind)}:
            continue
        parts = [part for part in (hint, *getattr(hint, "__args__", ())) if is_dataclass(part)]
        found += [place + name, *(inner for part in parts for inner in names_of(part, f"{place}{name}."))]
    return found


def test_fields_do_not_change_without_a_new_schema():
    """If this fails, raise SCHEMA, say in gatel0rd.paper.schema how older records follow, and update the number."""
    fingerprint = content_hash({kind.kind: sorted(names_of(kind)) for kind in (WorldModelRun, AgentRun)})
    assert (SCHEMA, fingerprint) == (3, "c182708df7")


def test_the_planner_of_an_old_record_gets_its_new_name(old):
    (path,) = old.glob("rrc/*/record.json")
    planning = {"planner": {"horizon": 50, "initial_deviation": 0.25}, "epochs": [10], "success": [0.5]}
    content = read_json(path) | {"schema": 2, "kind": "world model", "planning": planning}
    upgraded = schema.STEPS[2](json.loads(json.dumps(content)))
    assert upgraded == content | {"planning": planning | {"planner": {"horizon": 50, "initial_std": 0.25}}}
    del content["planning"]
    assert schema.STEPS[2](dict(content)) == content
    settings = to_json(ICEMConfig())
    committed = [read_json(path) for path in RESULTS.glob("*/*/record.json")]
    planners = [record["planning"]["planner"] for record in committed if "planning" in record]
    assert len(planners) > 30 and all(settings.keys() <= planner.keys() for planner in planners)
