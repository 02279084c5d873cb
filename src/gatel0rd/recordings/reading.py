"""Read recordings of one's own: NumPy archives, CSV, Parquet and Minari data sets, cleaned by common rules."""

from __future__ import annotations

from pathlib import Path

from gatel0rd.recordings.arrays import from_minari, from_npz
from gatel0rd.recordings.cleaning import clean
from gatel0rd.recordings.layout import Layout, RecordingError
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import from_csv, from_parquet

MINARI = "minari:"
READERS = {".npz": from_npz, ".csv": from_csv, ".parquet": from_parquet}
TABLES = (".csv", ".parquet")
FORMATS = ".npz, .csv, .parquet, or minari:NAME"


def read_recordings(source: str | Path, layout: Layout | None = None, *, keep_constant: bool = False) -> Recordings:
    """Read a file (or ``minari:NAME``) and apply the rules of :mod:`gatel0rd.recordings.cleaning`.

    Args:
        source: a path that ends in .npz, .csv or .parquet, or the name of a Minari data set.
        layout: what the columns are, where it cannot be seen from their names.
        keep_constant: leave constant columns in, as a model needs that was trained with them.
    """
    layout = layout or Layout()
    if str(source).startswith(MINARI):
        return clean(from_minari(str(source).removeprefix(MINARI), layout), keep_constant=keep_constant)
    path = Path(source)
    if not path.exists():
        raise RecordingError(f"there is no {path}; expected {FORMATS}")
    if path.is_dir():
        raise RecordingError(f"{path} is a directory; expected {FORMATS}")
    if path.suffix.lower() not in READERS:
        raise RecordingError(f"{path} ends in {path.suffix or 'nothing'}; expected {FORMATS}")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty; expected {FORMATS} with a row per time step")
    return clean(READERS[path.suffix.lower()](path, layout), keep_constant=keep_constant)
