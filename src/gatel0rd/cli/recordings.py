"""Commands for recordings of one's own: fit, segment, segment-benchmark, explore, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from rich.markup import escape
from tyro.conf import Positional, arg

from gatel0rd.cli.console import console, format_duration, print_written, show_progress
from gatel0rd.cli.options import (
    DataSource,
    HiddenSize,
    LearningRate,
    OutDirectory,
    Seed,
    SequenceColumn,
    TimeColumn,
    optional,
    parse_names,
)


def fit(
    data: Positional[DataSource],
    out: Annotated[
        Path, arg(metavar="MODEL", help="Directory for the model; an interrupted fit resumes there.")
    ] = Path("model"),
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
    observations: Annotated[
        str | None, optional("A,B", "Columns to predict. The default is all that have no other role.")
    ] = None,
    actions: Annotated[
        str | None, optional("A,B", "Columns that the model is given and does not predict. The default is none.")
    ] = None,
    ignore: Annotated[str | None, optional("A,B", "Columns to leave out. The default is none.")] = None,
    cell: Annotated[
        Literal["gatel0rd", "lstm", "gru", "elman"], arg(help="The recurrent network that is the model's memory.")
    ] = "gatel0rd",
    hidden_size: HiddenSize = 8,
    gate_rate: Annotated[
        float, arg(metavar="R", help="Share of gates that should be open; λ is adjusted to hold it.")
    ] = 0.05,
    events: Annotated[
        float | None,
        optional(
            "E",
            "Hold the number of events per sequence instead: steps at which a gate opens after all were closed.",
        ),
    ] = None,
    sparsity: Annotated[float | None, optional("L", "Fix λ instead of holding a target.")] = None,
    window: Annotated[
        int, arg(metavar="N", help="Number of steps of the longest stretch that is predicted in one piece.")
    ] = 50,
    rounds: Annotated[int, arg(metavar="N", help="Largest number of rounds, of 50 gradient steps each.")] = 240,
    learning_rate: LearningRate = 0.002,
    seed: Seed = 0,
) -> None:
    """Fit a model with a readable memory to recordings of your own.

    A preview shows how the data was understood.
    """
    from gatel0rd.recordings import Layout, read_recordings
    from gatel0rd.recordings.config import FitConfig
    from gatel0rd.recordings.fit import fit as fit_model

    if sparsity is not None and events is not None:
        raise ValueError("both --events and --sparsity were given; hold the events, or fix λ")
    config = FitConfig(
        cell=cell,
        hidden_size=hidden_size,
        gate_rate=None if sparsity is not None else gate_rate,
        events=events,
        sparsity_weight=0.001 if sparsity is None else sparsity,
        window=window,
        rounds=rounds,
        learning_rate=learning_rate,
        seed=seed,
    )
    layout = Layout(
        sequence=sequence,
        time=time,
        observations=parse_names(observations),
        actions=parse_names(actions),
        ignored=parse_names(ignore),
    )
    recordings = read_recordings(data, layout)
    for line in recordings.preview():
        console.print(escape(line), highlight=False)
    with show_progress() as progress:
        task = progress.add_task("fitting", total=rounds)

        def on_round(metrics: dict[str, Any]) -> None:
            text = describe_round(metrics)
            progress.update(task, completed=metrics["round"], description=text)
            if not console.is_terminal and metrics["round"] % 20 == 0:
                console.print(text, highlight=False)

        fitted = fit_model(recordings, config, out, on_round=on_round)
    for line in describe_fit(fitted.info):
        console.print(line, highlight=False)
    following = f"gatel0rd segment {out} {data}, " if "open_rate" in fitted.info else ""
    console.print(f"wrote {out}; next: {following}gatel0rd explore {out} {data}")


def describe_round(metrics: dict[str, Any]) -> str:
    """A round of a fit, for people."""
    text = f"round {metrics['round']}: error {metrics['error']:.3g}"
    if "open_rate" in metrics:
        text += f", {metrics['open_rate']:.1%} of the gates open, λ {metrics['sparsity_weight']:.1e}"
    return text


def describe_fit(info: dict[str, Any]) -> list[str]:
    """What came out of a fit, for people."""
    lines = [
        f"validation error {info['error']:.3g} of the variance, {info['persistence_error']:.3g} if nothing changed; "
        f"best of {info['rounds']} rounds, {format_duration(info['seconds'])}"
    ]
    if "open_rate" in info:
        lines.append(f"{info['open_rate']:.1%} of the gates are open, {info['events']:.1f} events per sequence")
    if not info["held"]:
        lines.append("the gates are not as active as you asked for; give it more --rounds, or another target")
    return lines


def segment(
    model: Positional[Annotated[Path, arg(metavar="MODEL", help="Directory of a model that `gatel0rd fit` wrote.")]],
    data: Positional[DataSource],
    out: Annotated[
        Path, arg(metavar="FILE", help="File to write: CSV, or JSON with segments as well, by its ending.")
    ] = Path("events.csv"),
    apart: Annotated[
        int | None,
        optional("N", "Events less than N steps after a boundary belong to it. The default is 3."),
    ] = None,
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
) -> None:
    """Find the events of sequences.

    An event is when the model's memory changes after it was constant.
    """
    from gatel0rd.files import check_writable
    from gatel0rd.models.events import APART
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.recordings import read_for_models
    from gatel0rd.recordings.segmenter import segment as find_segments
    from gatel0rd.recordings.segmenter import write_events

    check_writable(out)
    fitted = load(model)
    recordings = read_for_models([(model.name, fitted)], data, sequence=sequence, time=time)
    found = find_segments(fitted, recordings, apart=APART if apart is None else apart)
    write_events(found, out)
    events, cuts = sum(len(entry.events) for entry in found), sum(len(entry.boundaries) for entry in found)
    console.print(f"{events} events in {len(found)} sequences, {cuts} boundaries; wrote {out}")
    for entry in found[:5]:
        shown = ", ".join(map(str, entry.boundaries[:12])) + (", …" if len(entry.boundaries) > 12 else "")
        console.print(escape(f"  {entry.name}: {shown or 'nothing happens'}"), highlight=False)


def segment_benchmark(
    runs: Positional[Annotated[Path, arg(metavar="RUNS", help="Directory with finished runs of the paper's worlds.")]],
    out: OutDirectory = Path("runs/segmentation"),
) -> None:
    """Compare boundaries with the exact labels of the paper's worlds.

    The methods are GateL0RD, GRU, surprise, PELT and BinSeg.
    """
    from gatel0rd.recordings.benchmark import benchmark

    _, table = benchmark(runs, out, lambda name: console.print(name, highlight=False))
    console.print(table.markdown(), highlight=False)
    console.print(f"wrote {out / 'segmentation.json'} and {out / 'segmentation.md'}")


def explore(
    models: Positional[
        Annotated[
            tuple[Path, ...],
            optional("MODEL", "Directories of models, which are shown side by side; recordings may follow them."),
        ]
    ],
    data: Annotated[
        str | None,
        optional("DATA", "Recordings to look at. The default is data of the paper's world that the models are of."),
    ] = None,
    port: Annotated[int, arg(metavar="N", help="Port of the page, which only this machine can reach.")] = 8765,
    browser: Annotated[bool, arg(help="Open the page in a browser.")] = True,
    save: Annotated[
        Path | None, optional("FILE", "Write the page to one HTML file instead, without live inference.")
    ] = None,
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
) -> None:
    """Look at sequences, predictions, memory, gates and events in a browser.

    The paper's worlds can be driven live.
    """
    from gatel0rd.explore import save_page, serve
    from gatel0rd.files import check_writable
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.recordings import read_for_models

    *given, last = [str(path) for path in models] or [""]
    if data is None and given and not Path(last).is_dir():
        models, data = models[:-1], last
    if not models:
        raise ValueError("no model was given; expected directories that `gatel0rd fit` or `gatel0rd run` left")
    loaded = [(path.name or str(path), load(path)) for path in models]
    recordings = None if data is None else read_for_models(loaded, data, sequence=sequence, time=time)
    if save is not None:
        check_writable(save)
        print_written(save_page(loaded, recordings, save))
        return
    serve(
        loaded,
        recordings,
        port=port,
        open_browser=browser,
        on_start=lambda address: console.print(f"open {address} in a browser; Ctrl-C ends it", highlight=False),
    )


def export(
    model: Positional[
        Annotated[Path, arg(metavar="MODEL", help="Directory of a model that `gatel0rd fit` or `run` wrote.")]
    ],
    to: Annotated[Literal["onnx"], arg(help="Format of the files.")] = "onnx",
    out: Annotated[Path | None, optional("DIR", "Directory for the files. The default is MODEL/onnx.")] = None,
) -> None:
    """Write a model for other software.

    The files hold a single step, the first state, and whole sequences.
    """
    from gatel0rd.integrations.onnx import export_onnx
    from gatel0rd.models.io import load_fitted as load

    for path in export_onnx(load(model), model / to if out is None else out):
        console.print(f"wrote {path}")
