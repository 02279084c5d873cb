from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gatel0rd.cli.main import main
from gatel0rd.files import FileError
from gatel0rd.paper.films import animate
from gatel0rd.paper.plan import find, plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["rrc/latents", "billiard/latents", "shepherd/latents"])
def run_directory(request, tmp_path_factory):
    (run, *_) = plan(find(request.param), profile="smoke", seeds=[0], cells=["gatel0rd"])
    return run.execute(tmp_path_factory.mktemp("runs"))


def test_a_film_shows_the_real_and_the_predicted_sequence(run_directory, tmp_path):
    seen = []
    path = animate(run_directory, tmp_path / "film.gif", on_frame=lambda done, total: seen.append((done, total)))
    steps = {"rrc": 50, "billiard": 51, "shepherd": 100}[run_directory.parent.name]
    assert seen == [(number, steps) for number in range(1, steps + 1)]
    with Image.open(path) as film:
        assert film.is_animated
        frames = []
        for number in (0, 1, steps // 2):
            film.seek(min(number, film.n_frames - 1))
            frames.append(np.asarray(film.convert("RGB"), dtype=int))
    half = frames[0].shape[1] // 2
    scene = slice(30, 240)
    start, later = frames[0], frames[-1]
    assert np.abs(start[scene, : half - 5] - start[scene, half + 5 :]).mean() < 1  # the same until predictions begin
    assert np.abs(later[scene, : half - 5] - later[scene, half + 5 :]).mean() > 0.1
    assert not np.array_equal(start[scene, :half], later[scene, :half])


def test_other_sequences_and_formats_from_the_command_line(run_directory, tmp_path, capsys):
    path = tmp_path / "film.webp"
    main(["animate", str(run_directory), "--sequence", "3", "--out", str(path)])
    with Image.open(path) as film:
        assert film.format == "WEBP" and film.is_animated
    main(["measure", str(run_directory)])
    shown = capsys.readouterr().out
    assert f"wrote {path}" in shown and f"updated {run_directory}/record.json" in shown


def test_impossible_films_are_errors(run_directory, tmp_path):
    with pytest.raises(ValueError, match=r"sequence is 256; the (test|generalization) set has 256, counted from 0"):
        animate(run_directory, tmp_path / "film.gif", sequence=256, on_frame=lambda done, total: None)
    with pytest.raises(ValueError, match=r"film.mp4 ends in .mp4; films are written as .gif or .webp"):
        animate(run_directory, tmp_path / "film.mp4", on_frame=lambda done, total: None)


def test_a_directory_without_a_model_is_an_error(tmp_path):
    with pytest.raises(FileError, match="give the directory of a finished run"):
        animate(tmp_path, tmp_path / "film.gif", on_frame=lambda done, total: None)
