"""Tables of text, as Markdown or HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A header and rows of text; the first column names the row, the others hold numbers or ``prose``."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    prose: bool = False

    def markdown(self) -> str:
        lines = [self.header, ["---", *["---" if self.prose else "---:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def html(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.rows)
        opening = '<table class="prose">' if self.prose else "<table>"
        return f"{opening}<thead>{row(self.header, 'th')}</thead><tbody>{body}</tbody></table>"
