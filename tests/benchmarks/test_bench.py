"""Benchmarks compare like with like: the peers compute what we compute."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import bench
from benchmarks.__main__ import main as measure
from gatel0rd import WorldModel
from gatel0rd.cli.main import main
from gatel0rd.nn.functional import l0_penalty


def test_flops_are_counted_as_by_hand():
    """RRC: f_pre 6·32 + 32·16 + 16·8, g and r 16·8 each, p and o 16·8 each, f_post 8·4; f_init 6·16 + 16·8 once."""
    (size,) = (size for size in bench.SIZES if size.name == "rrc")
    body = 3 * (4 * 32 + 32 * 16 + 16 * 8 + 4 * 16 * 8 + 8 * 4) + 2 * (2 * 32)
    prologue = 2 * 6 * 16 + 3 * 16 * 8
    assert bench.training_flops(size) == 2 * 128 * (49 * body + prologue)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("size", bench.SIZES, ids=lambda size: size.name)
def test_the_jax_peer_computes_our_loss_and_gradients(size):
    import jax
    import jax.numpy as jnp

    from benchmarks.bench_jax import loss, weights_of

    size = replace(size, steps=6)
    model = WorldModel(size.model)
    observations, actions = bench.batch_of(size)
    feed = torch.rand(6, bench.BATCH) < 0.5
    noise = model.sample_noise(6, bench.BATCH)
    arrays = [jnp.asarray(tensor.numpy()) for tensor in (observations, actions, feed, noise)]
    value, gradient = jax.value_and_grad(loss)(weights_of(model), *arrays, size.model)
    rollout = model(observations[:-1], actions[:-1], feed, noise)
    ours = (rollout.predictions - observations[1:]).square().mean() + 0.001 * l0_penalty(rollout.gates)
    ours.backward()
    assert float(value) == pytest.approx(ours.item(), rel=1e-5)
    for name, module in (("pre", model.pre[0]), ("g", model.core.cells[0].gate_net[0]), ("init", model.init[0][0])):
        np.testing.assert_allclose(np.asarray(gradient[name][0][0]).T, module.weight.grad, rtol=1e-3, atol=1e-7)


def test_rows_say_who_was_compared_and_how_fast(tmp_path, capsys, monkeypatch):
    real = bench.medians
    monkeypatch.setattr(bench, "medians", lambda candidates, **_: real(candidates, seconds=0.01, warmup=1))
    measure(only="planning", json=tmp_path / "rows.json", plot=tmp_path / "rows.png")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["name"], row["threads"]) for row in rows] == [
        (name, threads) for threads in (1, 2) for name in ("planning/256x50", "planning/rrc-step")
    ]
    for row in rows:
        assert set(row) == {"name", "threads", "ours_ms", "peer", "peer_ms", "ratio"}
        assert row["ratio"] == pytest.approx(row["peer_ms"] / row["ours_ms"], rel=0.01)
    assert (tmp_path / "rows.png").read_bytes()[:4] == b"\x89PNG"
    assert "torch path" in capsys.readouterr().out
    with pytest.raises(ValueError, match="chess"):
        measure(only="chess")


def test_info_says_which_engine_is_active(capsys, tmp_path):
    main(["info", "--json", str(tmp_path / "info.json")])
    assert "engine: native" in capsys.readouterr().out
    found = json.loads((tmp_path / "info.json").read_text())
    assert found["engine"] == "native" and found["instruction_set"] in found["available"] and found["why"]
