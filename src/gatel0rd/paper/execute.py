"""One run from configuration to record, in a directory of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import gatel0rd
from gatel0rd.config import from_json, to_json
from gatel0rd.engine import status
from gatel0rd.files import FileError, exclusive, load_arrays, write_json
from gatel0rd.models import load_model, save_model
from gatel0rd.paper.measures import measure
from gatel0rd.paper.plan import SNAPSHOTS, RunConfig, is_finished
from gatel0rd.paper.records import processor
from gatel0rd.training import Trainer, evaluate, time_first
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain


def execute(
    run: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> Path:
    """Train, evaluate and write ``record.json``; a finished run is left as it is. Returns the run's directory."""
    directory = out / run.directory_name
    with exclusive(directory), one_thread():
        if is_finished(run, out):
            return directory
        if (directory / "config.json").exists() and not resume:
            raise FileError(
                f"{directory} holds an unfinished run; continue it with --resume, or delete it to start over"
            )
        write_json(directory / "config.json", to_json(run))

        evaluations = obtain_all(run.evaluation_names, run.evaluation_data, out / "data")
        train = obtain(run.train_data, out / "data")
        world = registry.get(run.scenario)
        trainer = Trainer(
            run.model,
            run.train,
            train,
            evaluations,
            seed=run.seed,
            directory=directory,
            measure=world.measure_in_training,
            snapshots=SNAPSHOTS if world.scenario.episode_seconds else 0,
        )
        model = trainer.run(on_epoch)
        save_model(directory / "model.safetensors", model, {"run": to_json(run)})
        validations = obtain_all(run.validation_names, run.validation_data, out / "data")
        final = dict(trainer.history[-1]["evaluation"])
        for name, dataset in validations.items():
            final[name] = evaluate(model, *time_first(dataset, run.model))
        record = {
            "run": to_json(run),
            "group": run.group,
            "share_of_paper": run.share,
            "code": {"version": gatel0rd.__version__, "commit": code_commit(), "torch": torch.__version__},
            "machine": {"processor": processor(), "threads": torch.get_num_threads(), "engine": status()["engine"]},
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "wall_seconds": round(trainer.seconds, 2),
            "curves": curves(trainer.history),
            "final": final,
            "measures": measure(run.scenario, model, evaluations),
        }
        write_json(directory / "record.json", rounded(record))
    return directory


def obtain_all(names: Sequence[str], recipes: Sequence[DataRecipe], directory: Path) -> dict[str, Dataset]:
    """Data sets by name, made first where they are missing."""
    return {name: obtain(recipe, directory) for name, recipe in zip(names, recipes, strict=True)}


def run_behind(path: Path) -> RunConfig:
    """The run that left this model file in its directory."""
    if not path.exists():
        raise FileError(f"there is no {path}; give the directory of a finished run, as `gatel0rd run` leaves it")
    metadata = load_arrays(path, kind="model")[1]
    if "run" not in metadata:
        raise FileError(f"{path} does not say which run it is from; give the directory of a finished run")
    return from_json(RunConfig, metadata["run"])


def measure_again(directory: Path) -> Path:
    """Bring the measures of a finished run up to date with this code; its training is left as it is."""
    path = directory / "record.json"
    if not path.exists():
        raise FileError(f"there is no {path}; only finished runs can be measured again")
    with exclusive(directory), one_thread():
        record = json.loads(path.read_text())
        run = from_json(RunConfig, record["run"])
        evaluations = obtain_all(run.evaluation_names, run.evaluation_data, directory.resolve().parent.parent / "data")
        model = load_model(directory / "model.safetensors")
        record["measures"] = rounded(measure(run.scenario, model, evaluations))
        record["code"]["measured"] = code_commit()
        write_json(path, record)
    return path


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that results do not depend on how many cores are free."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def curves(history: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The metrics at evaluations, as columns; training losses are means over the epochs since the last one."""
    columns: dict[str, list[Any]] = {"epoch": []}
    since: list[dict[str, Any]] = []
    for metrics in history:
        since.append(metrics)
        if "evaluation" not in metrics:
            continue
        row: dict[str, Any] = {"epoch": metrics["epoch"]}
        for name in ("loss", "task_loss", "penalty", "open_rate", "sampling_probability"):
            values = [entry[name] for entry in since if name in entry]
            row[f"train.{name}"] = sum(values) / len(values) if values else None
        for dataset, measures in metrics["evaluation"].items():
            row.update({f"{dataset}.{name}": value for name, value in measures.items()})
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        since = []
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def rounded(content: Any) -> Any:
    """Numbers with six significant digits: records are to be read and kept small."""
    if isinstance(content, dict):
        return {key: value if key == "run" else rounded(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [rounded(entry) for entry in content]
    return float(f"{content:.6g}") if isinstance(content, float) else content


def code_commit() -> str | None:
    """The commit of this source tree, with ``+`` if it was changed; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here))
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
