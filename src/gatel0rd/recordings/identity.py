"""What makes a fit the same as another: data, sizes and settings, but not how long it takes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np

from gatel0rd.config import content_hash
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.recordings import Recordings


def identify_fit(config: FitConfig, sizes: WorldModelConfig, recordings: Recordings) -> str:
    """What has to be the same for a fit to resume; it may be given more rounds."""
    settings = replace(config, rounds=FitConfig().rounds)
    return " ".join([content_hash(settings), content_hash(sizes), fingerprint(recordings)])


def fingerprint(recordings: Recordings) -> str:
    """What tells data sets apart."""
    names = [*recordings.observation_names, *recordings.action_names, *recordings.names]
    digest = hashlib.sha256(json.dumps([names, recordings.lengths.tolist()]).encode())
    digest.update(np.ascontiguousarray(recordings.observations).tobytes())
    digest.update(np.ascontiguousarray(recordings.actions).tobytes())
    return digest.hexdigest()[:10]
