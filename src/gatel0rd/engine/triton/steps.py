"""One step of a gated layer's recurrence, forward and backward, for some batch entries and units: what all kernels of
:mod:`gatel0rd.engine.triton.kernels` share.

A step's tensors are [B, H], those of the sums [B, 2·H], the gate first. ``now`` is the number of the step's first row
in a sequence [T·B, ·], ``at`` and ``at_sums`` are offsets of the entries within the step, ``inside`` says which exist.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

RETANH = tl.constexpr(0)
SIGMOID = tl.constexpr(1)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def activate(s, GATE: tl.constexpr):
    """Λ(s); a NaN stays one."""
    if GATE == RETANH:
        return tl.where(s <= 0, 0.0, tanh(s))
    if GATE == SIGMOID:
        return tl.sigmoid(s)
    return tl.where(s > 0, 1.0, tl.where(s <= 0, 0.0, s))


@triton.jit
def derive(y, GATE: tl.constexpr):
    """dΛ/ds from y = Λ(s); straight through for the step function."""
    if GATE == RETANH:
        return tl.where(y > 0, 1 - y * y, 0.0)
    if GATE == SIGMOID:
        return y * (1 - y)
    return y * 0 + 1


@triton.jit
def locate(rows, cols, batch, H):
    """``at``, ``at_sums`` and ``inside`` of batch entries and units."""
    at, at_sums = rows[:, None] * H + cols[None, :], rows[:, None] * 2 * H + cols[None, :]
    return at, at_sums, (rows < batch)[:, None] & (cols < H)[None, :]


@triton.jit
def read_mask(mask, now, rows, batch):
    """A column of a step's mask. Shape: [BLOCK_B, 1]."""
    return (tl.load(mask + now + rows, mask=rows < batch, other=0) != 0)[:, None]


@triton.jit
def read_weights(weight, outs, ins, H):
    """Weights [out, in] of gate and recommendation: a tile of each, with the shape of ``outs`` by ``ins``."""
    at, known = outs * H + ins, (outs < H) & (ins < H)
    return tl.load(weight + at, mask=known, other=0), tl.load(weight + H * H + at, mask=known, other=0)


@triton.jit
def draw_normal(seed, now, at, H):
    """Standard normal numbers of a step: Philox counts entries, so that every kernel finds the same ones."""
    return tl.randn(tl.load(seed), now * H + at)


@triton.jit
def read_given(
    given, seed, noise_std, now, at, at_sums, inside, H, DRAW: tl.constexpr, ACC: tl.constexpr
):  # fmt: skip
    """What both sums get from the input, and the gate's from its noise if that is drawn here."""
    s_gate = tl.load(given + now * 2 * H + at_sums, mask=inside, other=0).to(ACC)
    s_recommend = tl.load(given + now * 2 * H + H + at_sums, mask=inside, other=0).to(ACC)
    if DRAW:
        s_gate += (noise_std * draw_normal(seed, now, at, H)).to(ACC)
    return s_gate, s_recommend


@triton.jit
def multiply(x, weight, acc, PRECISION: tl.constexpr, ACC: tl.constexpr):
    """acc + x·weight, in the type of the weights."""
    return tl.dot(x.to(weight.dtype), weight, acc=acc, input_precision=PRECISION, out_dtype=ACC)


@triton.jit
def sum_tiles(
    given, seed, noise_std, source, weight, now, rows, cols, reset, batch, H,
    DRAW: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Both sums of some units, and the state before, which is at ``source``: state and weights are read in tiles."""
    at, at_sums, inside = locate(rows, cols, batch, H)
    s_gate, s_recommend = read_given(given, seed, noise_std, now, at, at_sums, inside, H, DRAW, ACC)
    for k in range(0, H, BLOCK_H):
        inner = k + tl.arange(0, BLOCK_H)
        at_inner, _, known = locate(rows, inner, batch, H)
        part = tl.load(source + at_inner, mask=known & ~reset, other=0)
        w_gate, w_recommend = read_weights(weight, cols[None, :], inner[:, None], H)
        s_gate = multiply(part, w_gate, s_gate, PRECISION, ACC)
        s_recommend = multiply(part, w_recommend, s_recommend, PRECISION, ACC)
    return s_gate, s_recommend, tl.load(source + at, mask=inside & ~reset, other=0).to(ACC)


@triton.jit
def finish_step(
    s_gate, s_recommend, h, alive, states, fresh, gates, recommended, now, at, inside, H,
    HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Gates, recommendation and next state from both sums; they are written, and the state is returned."""
    gate, recommend = activate(s_gate, GATE), tanh(s_recommend)
    new = gate * recommend + (1 - gate) * h
    tl.store(gates + now * H + at, gate, mask=inside)
    if KEEP:
        tl.store(recommended + now * H + at, recommend, mask=inside)
    if HAS_ACTIVE:
        tl.store(fresh + now * H + at, new, mask=inside)
        new = tl.where(alive, new, h)
    tl.store(states + now * H + at, new, mask=inside)
    return new


@triton.jit
def step_back(
    carry, before, alive, gates, recommended, d_states, d_fresh, d_gates, d_given, now, at, at_sums, inside, H,
    HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of both sums, which are written, and of the state before, except for what it gets through them.

    ``carry`` is the gradient of the state that later steps give.
    """
    carry += tl.load(d_states + now * H + at, mask=inside, other=0).to(ACC)
    gate = tl.load(gates + now * H + at, mask=inside, other=0).to(ACC)
    recommend = tl.load(recommended + now * H + at, mask=inside, other=0).to(ACC)
    d_new = carry
    if HAS_ACTIVE:
        d_new = tl.where(alive, carry, 0.0) + tl.load(d_fresh + now * H + at, mask=inside, other=0).to(ACC)
    d_gate = d_new * (recommend - before) + tl.load(d_gates + now * H + at, mask=inside, other=0).to(ACC)
    ds_gate, ds_recommend = d_gate * derive(gate, GATE), d_new * gate * (1 - recommend * recommend)
    tl.store(d_given + now * 2 * H + at_sums, ds_gate, mask=inside)
    tl.store(d_given + now * 2 * H + H + at_sums, ds_recommend, mask=inside)
    d_before = d_new * (1 - gate)
    if HAS_ACTIVE:
        d_before += tl.where(alive, 0.0, carry)
    return ds_gate, ds_recommend, d_before
