"""Text for people: standard output and error that take any, and numbers in words.

What an encoding lacks is written in letters that it has.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import unicodedata

SPELLINGS = {
    "λ": "lambda",
    "Λ": "Lambda",
    "…": "...",
    "–": "-",
    "—": "-",
    "−": "-",
    "·": "*",
    "•": "*",
    "×": "x",
    "±": "+/-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "─": "-",
    "━": "-",
    "╸": "-",
    "╺": "-",
    "│": "|",
    "┃": "|",
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼╷╵", "+"),
}
"""How characters of our own texts are written in ASCII."""
HANDLER = "gatel0rd.transliterate"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def transliterate(text: str) -> str:
    """The same text in ASCII: known signs are spelled out, accents are dropped, all others become escapes."""
    spelled = "".join(SPELLINGS.get(sign, sign) for sign in text)
    return "".join(_to_ascii(sign) for sign in spelled)


def _to_ascii(sign: str) -> str:
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return plain or sign.encode("ascii", "backslashreplace").decode()


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return transliterate(error.object[error.start : error.end]), error.end


def prepare_streams() -> None:
    """Let standard output and error of this process take any text, whatever their encoding.

    It holds for ASCII terminals as for names of files that are not text (lone surrogates).
    """
    codecs.register_error(HANDLER, _replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)


def count_of(number: int, what: str) -> str:
    """A number of things, in words: ``1 sequence``, ``2 sequences``."""
    return f"{number} {what}{'s' * (number != 1)}"


def describe_size(size: int) -> str:
    """A number of bytes for people: in kB below a tenth of a MB."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{max(size, 1000) / 1e3:.0f} kB"


def escape_controls(text: str) -> str:
    """The same text without signs that a terminal would obey, as names in other people's files may have them."""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def finish_output() -> None:
    """Write what is still to be printed. If nobody reads it, or the disk is full, that is an error, but only once."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, sys.stdout.fileno())  # the end of the process tries it again
        os.close(handle)
        raise
