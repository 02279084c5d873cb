"""Commands for recordings of one's own: fit, segment and its benchmarks, explore, export."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from gatel0rd.cli.console import console, format_duration, print_lines, print_written, show_progress
from gatel0rd.cli.fit_report import describe_columns, describe_fit, describe_next, describe_round
from gatel0rd.cli.options import (
    AT_LEAST_0,
    DataSources,
    HiddenSize,
    LearningRate,
    Limits,
    OutDirectory,
    Seed,
    SequenceColumn,
    TimeColumn,
    optional,
    parse_names,
)
from gatel0rd.streams import count_of


def fit(
    data: Positional[DataSources],
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
    categories: Annotated[
        str | None, optional("A,B", "Columns whose numbers are names. The default is none: texts are always names.")
    ] = None,
    same_row: Annotated[
        bool, arg(help="Actions stand in the row that they explain, and are moved to the one before.")
    ] = False,
    cell: Annotated[
        Literal["gatel0rd", "lstm", "gru", "elman"], arg(help="The recurrent network that is the model's memory.")
    ] = "gatel0rd",
    hidden_size: HiddenSize = 8,
    events: Annotated[
        float | None,
        optional(
            "E",
            "Number of events per sequence, where it is known: steps at which a gate opens after all were closed. "
            "The default finds it.",
        ),
    ] = None,
    gate_rate: Annotated[
        float | None, optional("R", "Share of gates that should be open, instead; λ is adjusted to hold it.")
    ] = None,
    sparsity: Annotated[
        float | None, AT_LEAST_0, optional("L", "Fix λ instead of finding or holding anything.")
    ] = None,
    objective: Annotated[
        Literal["follow", "free-run"],
        arg(help="Follow the real observations, or free-run over whole windows, for models to plan with."),
    ] = "follow",
    window: Annotated[
        int, arg(metavar="N", help="Number of steps of the longest stretch that is predicted in one piece.")
    ] = 50,
    rounds: Annotated[int, arg(metavar="N", help="Largest number of rounds, of 50 gradient steps each.")] = 200,
    minutes: Annotated[
        float | None, optional("M", "Time that training may take. The default is as long as the rounds take.")
    ] = None,
    learning_rate: LearningRate = 0.005,
    seed: Seed = 0,
    seeds: Annotated[
        int, Limits(1, 1000), arg(metavar="N", help="Number of models, from different seeds, that vote on each event.")
    ] = 1,
) -> dict[str, Any]:
    """Fit a model with a readable memory to recordings of your own.

    A preview shows how the data was understood.
    """
    from gatel0rd.recordings import Layout, read_recordings
    from gatel0rd.recordings.alignment import note_alignment
    from gatel0rd.recordings.config import FitConfig
    from gatel0rd.recordings.fit import fit as fit_model
    from gatel0rd.recordings.layout import Categories

    given = [("--events", events), ("--gate-rate", gate_rate), ("--sparsity", sparsity)]
    named = [name for name, value in given if value is not None]
    if len(named) > 1:
        raise ValueError(f"both {' and '.join(named)} were given; hold the events or the gates, or fix λ")
    if named and cell != "gatel0rd":
        raise ValueError(
            f"{named[0]} is about gates, which the cell {cell} does not have; leave it out, or fit gatel0rd"
        )
    config = FitConfig(
        cell=cell,
        hidden_size=hidden_size,
        objective=objective,
        gate_rate=gate_rate,
        events=events,
        sparsity_weight=sparsity,
        window=window,
        rounds=rounds,
        minutes=minutes,
        learning_rate=learning_rate,
        seed=seed,
    )
    layout = Layout(
        sequence=sequence,
        time=time,
        observations=parse_names(observations),
        actions=parse_names(actions),
        ignored=parse_names(ignore),
        categories=tuple(Categories(column=name) for name in parse_names(categories)),
        same_row=same_row,
    )
    recordings = read_recordings(data, layout)
    notes = [f"note: {note}" for note in note_alignment(recordings)]
    print_lines([*recordings.preview(), *notes, *describe_columns(recordings)])
    first, began = 0, 0.0
    with show_progress() as progress:
        task = progress.add_task("fitting", total=rounds)

        def on_round(metrics: dict[str, Any]) -> None:
            nonlocal first, began
            done, total = metrics["round"], metrics["rounds"]  # with --minutes there may be fewer rounds
            if not first or done <= first:  # since it was resumed, or of the next seed's model
                first, began = done, monotonic()
            text = describe_round(metrics)
            progress.update(task, completed=done, total=total, description=text)
            if not console.is_terminal and done % 20 == 0:
                left = format_duration((monotonic() - began) / max(1, done - first) * (total - done))
                console.print(f"round {done} of {total}: {text}; at most {left} left")

        fitted = fit_model(recordings, config, out, on_round=on_round, seeds=seeds)
    print_lines([*describe_fit(fitted.info), *describe_next(out, data)])
    return {"model": str(out), **fitted.info}


def segment(
    model: Positional[
        Annotated[Path, arg(metavar="MODEL", help="Directory of a model that `gatel0rd fit` wrote, or one of the zoo.")]
    ],
    data: Positional[DataSources],
    out: Annotated[
        Path, arg(metavar="FILE", help="File to write: CSV, or JSON with segments as well, by its ending.")
    ] = Path("events.csv"),
    apart: Annotated[
        int | None,
        AT_LEAST_0,
        optional("N", "Events less than N steps after a boundary belong to it. The default is 3."),
    ] = None,
    method: Annotated[
        Literal["gates", "changes"] | None,
        optional("M", "What finds boundaries: gates or changes. The default is what the fit chose."),
    ] = None,
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
) -> dict[str, Any]:
    """Find the events of sequences.

    The model says how: by its memory's gates, or by changes of a regression.
    """
    from gatel0rd.files import check_writable
    from gatel0rd.models.events import APART
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.recordings import read_for_models
    from gatel0rd.recordings.fit import load_voters
    from gatel0rd.recordings.segmentation import segment as find_segments
    from gatel0rd.recordings.segmentation import write_events

    check_writable(out)
    fitted = load(model)
    recordings = read_for_models([(model.name, fitted)], data, sequence=sequence, time=time)
    print_lines([f"note: {note}" for note in recordings.notes])
    voters = load_voters(model)
    found = find_segments(fitted, recordings, apart=APART if apart is None else apart, method=method, voters=voters)
    write_events(found, out, recordings)
    cuts = sum(len(entry.boundaries) for entry in found)
    events = sum(len(entry.events) for entry in found) if found and found[0].method == "gates" else cuts
    how = found[0].method if found else "gates"
    counts = f"{cuts} boundaries" if how == "changes" else f"{events} events, {cuts} boundaries"
    console.print(f"{counts} in {count_of(len(found), 'sequence')}, by {how}; wrote {out}")
    for entry in found[:5]:
        shown = ", ".join(map(str, entry.boundaries[:12])) + (", …" if len(entry.boundaries) > 12 else "")
        console.print(f"  {entry.name}: {shown or 'nothing happens'}")
    if len(found) > 5:
        console.print(f"  … and {count_of(len(found) - 5, 'more sequence')}")
    return {"file": str(out), "method": how, "sequences": len(found), "events": events, "boundaries": cuts}


def segment_benchmark(
    runs: Positional[Annotated[Path, arg(metavar="RUNS", help="Directory with finished runs of the paper's worlds.")]],
    out: OutDirectory = Path("runs/segmentation"),
) -> dict[str, Any]:
    """Compare boundaries with the exact labels of the paper's worlds.

    The methods are GateL0RD, GRU, surprise, PELT and BinSeg.
    """
    from gatel0rd.recordings.benchmark import benchmark

    _, table = benchmark(runs, out, lambda name: console.print(name))
    console.print(table.markdown())
    console.print(f"wrote {out / 'segmentation.json'} and {out / 'segmentation.md'}")
    return {"files": [str(out / name) for name in ("segmentation.json", "segmentation.md")]}


def segment_public(out: OutDirectory = Path("runs/segmentation")) -> dict[str, Any]:
    """Compare segmentation methods on public recordings.

    The recordings come inside river, seglearn and aeon; it takes some minutes.
    """
    from gatel0rd.recordings.public_benchmark import run_public_benchmark

    table = run_public_benchmark(out, lambda name: console.print(name))
    console.print(table.markdown())
    console.print(f"wrote {out / 'public.json'} and {out / 'public.md'}")
    return {"files": [str(out / name) for name in ("public.json", "public.md")]}


def segment_families(
    out: OutDirectory = Path("runs/segmentation"),
    sequences: Annotated[int, Limits(1, 1_000_000), arg(metavar="N", help="Number of sequences of each kind.")] = 60,
    steps: Annotated[int, Limits(1, 1_000_000), arg(metavar="T", help="Number of steps of each sequence.")] = 100,
    seeds: Annotated[int, Limits(1, 1_000_000), arg(metavar="S", help="Number of data sets of each kind.")] = 1,
    rounds: Annotated[int, Limits(1, 1_000_000), arg(metavar="R", help="Number of rounds of each fit.")] = 200,
) -> dict[str, Any]:
    """Fit generated recordings of many kinds, with the defaults.

    Their boundaries are known, so that the table says how many were found.
    """
    from gatel0rd.recordings.family_benchmark import run_family_benchmark

    table = run_family_benchmark(
        out,
        seeds=range(seeds),
        sequences=sequences,
        steps=steps,
        rounds=rounds,
        on_family=lambda name: console.print(name),
    )
    console.print(table.markdown())
    console.print(f"wrote {out / 'families.json'} and {out / 'families.md'}")
    return {"files": [str(out / name) for name in ("families.json", "families.md")]}


def segment_worlds(
    out: OutDirectory = Path("runs/segmentation"),
    data: Annotated[Path, arg(metavar="DIR", help="Directory in which data sets are kept.")] = Path("runs/data"),
    worlds: Annotated[str | None, optional("A,B", "Worlds to fit. The default is the paper's four.")] = None,
    seeds: Annotated[int, Limits(1, 1_000_000), arg(metavar="S", help="Number of fits in each world.")] = 1,
) -> dict[str, Any]:
    """Fit data of the paper's worlds, with the defaults.

    Their events are known, so that the table says how many were found.
    """
    from gatel0rd.recordings.world_benchmark import WORLDS, run_world_benchmark

    table = run_world_benchmark(
        out,
        data,
        worlds=parse_names(worlds) or WORLDS,
        seeds=range(seeds),
        on_world=lambda name: console.print(name),
    )
    console.print(table.markdown())
    console.print(f"wrote {out / 'worlds.json'} and {out / 'worlds.md'}")
    return {"files": [str(out / name) for name in ("worlds.json", "worlds.md")]}


def explore(
    models: Positional[
        Annotated[
            tuple[Path, ...],
            optional(
                "MODEL",
                "Directories of models or names of the zoo, which are shown side by side; recordings may follow them.",
            ),
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
) -> dict[str, Any]:
    """Look at sequences, predictions, memory, gates and events in a browser.

    The paper's worlds can be driven live.
    """
    from gatel0rd.explore import save_page, serve
    from gatel0rd.files import check_writable
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.models.zoo import resolve, zoo_name
    from gatel0rd.recordings import read_for_models

    named = () if data is None else (data,)
    while data is None and len(models) > 1 and not resolve(models[-1]).is_dir():  # recordings, after the models
        models, named = models[:-1], (str(models[-1]), *named)
    if not models:
        raise ValueError(
            "no model was given; expected directories that `gatel0rd fit` or `gatel0rd run` left, or names that "
            "`gatel0rd zoo` lists"
        )
    loaded = [(zoo_name(path) or path.name or str(path), load(path)) for path in models]
    recordings = read_for_models(loaded, named, sequence=sequence, time=time) if named else None
    print_lines([f"note: {note}" for note in recordings.notes] if recordings is not None else [])
    if save is not None:
        check_writable(save)
        print_written(save_page(loaded, recordings, save))
        return {"file": str(save), "models": [name for name, _ in loaded]}
    serve(
        loaded,
        recordings,
        port=port,
        open_browser=browser,
        on_start=lambda address: console.print(f"open {address} in a browser; Ctrl-C ends it"),
    )
    return {"port": port, "models": [name for name, _ in loaded]}


def export(
    model: Positional[
        Annotated[
            Path,
            arg(metavar="MODEL", help="Directory of a model that `gatel0rd fit` or `run` wrote, or one of the zoo."),
        ]
    ],
    to: Annotated[Literal["onnx"], arg(help="Format of the files.")] = "onnx",
    out: Annotated[Path | None, optional("DIR", "Directory for the files. The default is MODEL/onnx.")] = None,
) -> dict[str, Any]:
    """Write a model for other software.

    The files hold a single step, the first state, and whole sequences.
    """
    from gatel0rd.integrations.onnx import export_onnx
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.models.zoo import default_output

    paths = export_onnx(load(model), default_output(model, to, named=f"-{to}") if out is None else out)
    for path in paths:
        console.print(f"wrote {path}")
    return {"files": [str(path) for path in paths]}
