"""One run from configuration to record, in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import gatel0rd
from gatel0rd.config import to_json
from gatel0rd.engine import status
from gatel0rd.files import FileError, exclusive, load_arrays, read_json, write_sealed_json
from gatel0rd.models import load_model
from gatel0rd.paper.measures import choose_evaluation, measure, measure_latents
from gatel0rd.paper.provenance import code_commit, processor
from gatel0rd.paper.records import read_record
from gatel0rd.paper.run import OnMetrics, Outcome, Run
from gatel0rd.paper.schema import describe_run, read_run
from gatel0rd.paper.world_model_run import WorldModelRun

if TYPE_CHECKING:
    from gatel0rd.training.vector_env import BackendName


def execute(
    run: Run, directory: Path, *, data: Path, resume: bool, again: bool, backend: BackendName, on_metrics: OnMetrics
) -> Path:
    """See :meth:`Run.execute`."""
    with exclusive(directory), one_thread():
        if is_complete(run, directory) and not again:
            return directory
        check_resumable(run, directory, resume=resume, again=again)
        write_sealed_json(directory / "config.json", to_json(run))
        outcome = run.train_network(directory, data=data, backend=backend, on_metrics=on_metrics)
        write_sealed_json(directory / "record.json", make_record(run, outcome))
    return directory


def is_complete(run: Run, directory: Path) -> bool:
    """Whether the directory holds this run's record; that of another run is an error."""
    path = directory / "record.json"
    if not path.exists():
        return False
    if path.stat().st_size == 0:  # what a power cut leaves on some file systems: it was not finished
        return False
    try:
        record = read_record(path)
    except FileError as error:
        raise FileError(
            f"{error}. If it is deleted, the same command with --resume makes it again from what was trained"
        ) from error
    if record.group != run.group or record.seed != run.seed:
        raise FileError(
            f"{directory} holds another finished run, or one of an older version; choose another directory, or bring "
            f"it up to date with `gatel0rd migrate {directory}`"
        )
    return True


def check_resumable(run: Run, directory: Path, *, resume: bool, again: bool = False) -> None:
    """A directory with an unfinished run that is another one, or is not to be continued, is an error."""
    path = directory / "config.json"
    if not path.exists():
        return
    if not resume and again:
        raise FileError(f"{directory} holds a finished run whose models are gone; make them again with --resume")
    if not resume:
        raise FileError(f"{directory} holds an unfinished run; continue it with --resume, or delete it to start over")
    try:
        earlier, now = read_json(path), to_json(run)
    except FileError as error:
        raise FileError(f"{error}; or delete it: the checkpoint says itself whether it is of this run") from error
    scale = ("profile", "length_override")  # no part of what makes runs equal
    other = [name for name in now if name not in scale and earlier.get(name) != now[name]]
    if other:
        raise FileError(f"{directory} holds an unfinished run with another {', '.join(other)}; give the same")


def make_record(run: Run, outcome: Outcome) -> dict[str, Any]:
    """What is kept of a finished run."""
    record = {
        **describe_run(run),
        "group": run.group,
        "share_of_paper": run.share,
        "code": {"version": gatel0rd.__version__, "commit": code_commit(), "torch": torch.__version__},
        "machine": {
            "processor": processor(),
            "threads": torch.get_num_threads(),
            **{key: value for key, value in status().items() if key in ("engine", "instruction_set")},
            **(outcome.machine or {}),
        },
        "parameters": outcome.parameters,
        "wall_seconds": round(outcome.seconds, 2),
        "curves": outcome.curves,
        "final": outcome.final,
    }
    if outcome.measures is not None:
        record["measures"] = outcome.measures
    rounded: dict[str, Any] = round_numbers(record)
    return rounded


def find_run(path: Path) -> WorldModelRun:
    """The run that left this model file in its directory."""
    if not path.exists():
        raise FileError(f"there is no {path}; give the directory of a finished run, as `gatel0rd run` leaves it")
    return read_run(load_arrays(path, kind="model")[1], path, WorldModelRun)


def measure_again(directory: Path) -> Path:
    """Bring the measures of a finished run up to date with this code; its training is left as it is."""
    path = directory / "record.json"
    if not path.exists():
        raise FileError(f"there is no {path}; only finished runs can be measured again")
    with exclusive(directory), one_thread():
        record = read_json(path)
        run = read_run(record, path, WorldModelRun)
        evaluations = run.obtain_evaluations(directory.resolve().parent.parent / "data")
        model = load_model(directory / "model.safetensors")
        record["measures"] = round_numbers(measure(run.scenario, model, evaluations))
        record["code"]["measured"] = code_commit()
        write_sealed_json(path, record)
    return path


def add_missing_measures(content: dict[str, Any], directory: Path, *, data: Path) -> dict[str, Any]:
    """A record with the measures that its version did not know yet, from the model in the run's directory.

    What was measured already is left as it is. The same object if nothing is missing, or if there is no model.

    Args:
        content: the record, up to date otherwise.
        directory: where the run left its model.
        data: where data sets are, or are put.
    """
    path = directory / "model.safetensors"
    measured = content.get("measures") or {}
    if content["kind"] != WorldModelRun.kind or "latents" in measured or not path.exists():
        return content
    run = read_run(content, path, WorldModelRun)
    with one_thread():
        evaluation = choose_evaluation(run.obtain_evaluations(data))
        found = round_numbers(measure_latents(run.world, load_model(path), evaluation))
    code = {**content["code"], "measured": code_commit()}
    return {**content, "code": code, "measures": {**measured, "latents": found}}


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that results do not depend on how many cores are free."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def round_numbers(content: Any) -> Any:
    """Numbers with six significant digits: people read records, and they are committed."""
    if isinstance(content, dict):
        return {key: value if key == "run" else round_numbers(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [round_numbers(entry) for entry in content]
    return float(f"{content:.6g}") if isinstance(content, float) else content
