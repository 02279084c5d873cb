"""The page's files: as they are for the server, and all in one file for looking without one."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatel0rd.explore.bundle import bundle_directory
from gatel0rd.files import write_atomically

if TYPE_CHECKING:
    from gatel0rd.explore.models import ExploredModel
    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.recordings import Recordings

DIRECTORY = Path(__file__).parent / "page"
ENTRY = "main.js"
MOST_NUMBERS = 1_000_000
"""Numbers of a fit's other models in a saved page, for each model: about eight megabytes."""
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def read_asset(name: str) -> str:
    """One of the page's own files."""
    return (DIRECTORY / name).read_text(encoding="utf-8")


def list_assets() -> list[tuple[str, str]]:
    """The page's files, and the media type of each."""
    return sorted((path.name, MEDIA_TYPES[path.suffix]) for path in DIRECTORY.iterdir() if path.suffix in MEDIA_TYPES)


def plotly_source() -> str:
    """Plotly's script, from the Python package of that name."""
    from importlib.resources import files

    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def save_page(
    models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None, out: Path, *, sequences: int = 20
) -> Path:
    """Write the page as one HTML file with everything inside; it needs no server, and predicts nothing anew.

    Args:
        models: names and models, shown side by side.
        recordings: what they are run on; models of the paper's worlds can generate some themselves.
        out: the file.
        sequences: how many of the recordings, from the first on.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.explore import save_page
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd.recordings import from_arrays
        >>> model = wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=0)))
        >>> save_page([("untrained", model)], from_arrays(np.random.rand(5, 20, 2)), Path("page.html")).name
        'page.html'
    """
    from gatel0rd.explore.models import prepare_models

    if sequences < 1:
        raise ValueError(f"sequences is {sequences}; expected at least 1")
    explored = prepare_models(models, recordings)
    out = Path(out)
    write_atomically(out, render_page(_page_content(explored, sequences)))
    return out


def _page_content(explored: Sequence[ExploredModel], sequences: int) -> dict[str, Any]:
    """What the server would answer: the overview, and values and trajectories of some sequences."""
    from gatel0rd.explore import views

    shown = range(min(sequences, len(explored[0].recordings)))
    content = views.make_overview(explored)
    for entry, model in zip(content["models"], explored, strict=True):
        entry["curve"] = thin_curve(entry["curve"], entry["chosen"], count_numbers(model, shown))
    return {
        **content,
        "sequences": content["sequences"][: len(shown)],
        "drives": [],
        "live": False,
        "saved": [
            {
                "values": views.list_values(explored, index),
                "trajectories": [views.predict_sequence(model, index) for model in explored],
                "points": [
                    {
                        point["point"]: views.predict_sequence(model, index, point=point["point"])
                        for point in entry["curve"]
                        if point["point"] != entry["chosen"]
                    }
                    for entry, model in zip(content["models"], explored, strict=True)
                ],
            }
            for index in shown
        ],
    }


def count_numbers(model: ExploredModel, shown: range) -> int:
    """How many numbers describe some sequences as a model sees them."""
    from gatel0rd.explore.views import shown_length

    steps = sum(shown_length(int(model.recordings.lengths[index])) for index in shown)
    return steps * (len(model.model.observation_names) + 2 * model.model.model.config.cell.hidden_size)


def thin_curve(curve: list[dict[str, Any]], chosen: int | None, numbers: int) -> list[dict[str, Any]]:
    """As many points as a saved page has room for, with the chosen one; none if there would be two or fewer."""
    room = MOST_NUMBERS // max(1, numbers)
    if room < 3:
        return []
    places = {round(place * (len(curve) - 1) / (room - 1)) for place in range(room)}
    return [point for place, point in enumerate(curve) if place in places or point["point"] == chosen]


def render_page(content: dict[str, Any]) -> str:
    """The page with its style, its scripts and this content inside; a browser runs nothing but these scripts."""
    plotly, script = plotly_source(), bundle_directory(DIRECTORY, ENTRY)
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    hashes = " ".join(f"'sha256-{_digest(source)}'" for source in (plotly, script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = read_asset("page.html")
    for place, inside in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="stylesheet" href="page.css">', f"<style>\n{read_asset('page.css')}</style>"),
        ('<script src="plotly.js"></script>', f"<script>{plotly}</script>"),
        (
            f'<script type="module" src="{ENTRY}"></script>',
            f'<script type="application/json" id="saved">{data}</script>\n<script>{script}</script>',
        ),
    ):
        before, found, after = page.partition(place)
        assert found, f"page.html has no {place}"
        page = before + inside + after
    return page


def _digest(source: str) -> str:
    """What a Content-Security-Policy names an inline script by."""
    assert "</script" not in source.lower(), "an inline script would end early"
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
