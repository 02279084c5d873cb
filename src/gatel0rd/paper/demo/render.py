"""The demo's page as one HTML file, which needs neither a server nor the net."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from gatel0rd.files import write_atomically

DIRECTORY = Path(__file__).parent / "page"


def write_page(content: dict[str, Any], out: Path) -> Path:
    """Write the page with its style, its script and this content inside; a browser runs no other script."""
    page, style, script = ((DIRECTORY / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    for place, inside in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="stylesheet" href="page.css">', f"<style>\n{style}</style>"),
        (
            '<script src="page.js"></script>',
            f'<script type="application/json" id="content">{data}</script>\n<script>{script}</script>',
        ),
    ):
        assert place in page, f"page.html has no {place}"
        page = page.replace(place, inside)
    write_atomically(out, page)
    return out
