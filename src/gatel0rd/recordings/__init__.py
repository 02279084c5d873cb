"""People's own data: readers, cleaning, a fit, events."""

from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.for_models import read_for_model, read_for_models
from gatel0rd.recordings.layout import Layout, RecordingError
from gatel0rd.recordings.reading import read_recordings
from gatel0rd.recordings.recordings import Recordings

__all__ = [
    "Layout",
    "RecordingError",
    "Recordings",
    "from_arrays",
    "read_for_model",
    "read_for_models",
    "read_recordings",
]
