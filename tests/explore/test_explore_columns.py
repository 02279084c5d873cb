"""Models of different columns, side by side."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from small_models import small_model

from gatel0rd.cli.main import main
from gatel0rd.explore import make_app, save_page
from gatel0rd.models.io import save_fitted
from gatel0rd.recordings.for_models import read_for_models

ROWS = np.random.default_rng(4).normal(3, 20, size=(13, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def models():
    return [
        ("wide", small_model(observed=("a", "b", "c"), acted=("d",))),
        ("narrow", small_model("gru", observed=("b", "a"), acted=())),
        ("other", small_model("lstm", observed=("d", "c"), acted=("a",))),
    ]


@pytest.fixture(scope="module")
def directory(models, tmp_path_factory):
    directory = tmp_path_factory.mktemp("columns")
    lines = [",".join(map(repr, row)) for row in ROWS.tolist()]
    (directory / "data.csv").write_text("\n".join(["a,b,c,d", *lines]))
    (directory / "short.csv").write_text("\n".join(["a,b", *(line.rsplit(",", 2)[0] for line in lines)]))
    for name, model in models:
        save_fitted(directory / name, model)
    return directory


@pytest.fixture(scope="module")
def recordings(models, directory):
    return read_for_models(models, str(directory / "data.csv"))


@pytest.mark.parametrize("order", [("wide", "narrow"), ("narrow", "wide"), ("narrow", "other", "wide")])
def test_the_command_takes_models_of_different_columns(directory, models, monkeypatch, order):
    monkeypatch.chdir(directory)
    main(["explore", *order, "data.csv", "--save", "page.html"])
    text = (directory / "page.html").read_text()
    content = json.loads(re.search(r'id="saved">(.*?)</script>', text, re.DOTALL)[1])
    by_name = dict(models)
    columns = {name: ROWS[:, "abcd".index(name)] for name in "abcd"}
    for name, shown, trajectory in zip(order, content["models"], content["saved"][0]["trajectories"], strict=True):
        model = by_name[name]
        assert (shown["name"], tuple(shown["observations"]), tuple(shown["actions"])) == (
            name,
            model.observation_names,
            model.action_names,
        )
        seen = np.stack([columns[column] for column in model.observation_names], axis=1)
        acted = np.stack([columns[column] for column in model.action_names], axis=1) if model.action_names else None
        expected = model.run(seen, acted).predictions
        assert list(trajectory["predictions"]) == list(model.observation_names)
        np.testing.assert_allclose(list(trajectory["predictions"].values()), expected.T, rtol=1e-4)
    assert set(content["saved"][0]["values"]) == {
        column for name in order for column in by_name[name].observation_names
    } | {column for name in order for column in by_name[name].action_names}


def test_the_command_names_a_model_with_more_columns_than_the_data(directory, monkeypatch, capsys):
    monkeypatch.chdir(directory)
    with pytest.raises(SystemExit) as stop:
        main(["explore", "narrow", "wide", "short.csv", "--save", "none.html"])
    assert stop.value.code == 2
    shown = capsys.readouterr().err.replace("\n", " ")
    assert "no column 'c' for the observations; it has a, b; model wide was trained on a, b, c, d" in shown
    assert not (directory / "none.html").exists()


def shown_in(page, column):
    script = "(plot) => [plot.data.map((trace) => trace.name), plot.layout.annotations.map((note) => note.text)]"
    return page.locator("#columns .plot").nth(column).evaluate(script)


@pytest.mark.browser
@pytest.mark.parametrize("saved", [False, True])
def test_each_model_shows_its_own_variables(page, serve_app, models, recordings, tmp_path, saved):
    page.goto(
        save_page(models, recordings, tmp_path / "page.html").as_uri()
        if saved
        else serve_app(make_app(models, recordings))
    )
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#columns h3").all_inner_texts() == ["GateL0RD", "GRU", "LSTM"]
    page.locator(".variable[data-name=d] input[type=checkbox]").check()
    own = [{"a", "b", "c", "d"}, {"a", "b"}, {"a", "c", "d"}]
    predicted = [{"a", "b", "c"}, {"a", "b"}, {"c", "d"}]
    for column in range(3):
        names, notes = shown_in(page, column)
        assert {name[0] for name in names if name.endswith(" recorded")} == own[column]
        assert {name[0] for name in names if name.endswith(" predicted")} == predicted[column]
        assert notes.count("not a variable of this model") == 4 - len(own[column])
    tops = page.locator("#columns .plot").evaluate_all("(plots) => plots.map((plot) => plot.layout.yaxis5.domain)")
    assert tops[0] == tops[1] == tops[2]  # latent states are at one height


@pytest.mark.browser
def test_an_edit_changes_only_models_that_have_the_variable(page, serve_app, models, recordings):
    page.goto(serve_app(make_app(models, recordings)))
    page.wait_for_selector("body[data-ready]")
    script = "(plots) => plots.map((plot) => plot.data.find((trace) => trace.name === 'h1').y)"
    before = page.locator("#columns .plot").evaluate_all(script)
    page.get_by_label("value of c").fill("99")
    page.keyboard.press("Enter")
    page.wait_for_selector("#reset:enabled")
    after = page.locator("#columns .plot").evaluate_all(script)
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, False]
