"""The recurrence of a gated layer as Triton kernels: all time steps of some batch entries in one program.

    gates[t] = Λ(given[t, :, :H] + noise[t] + before[t]·Wg)    recommended[t] = tanh(given[t, :, H:] + before[t]·Wr)
    fresh[t] = gates[t]·recommended[t] + (1 - gates[t])·before[t]
    states[t] = fresh[t] where active[t], else before[t]; before[t] = states[t - 1], or 0 where resets[t]

``*_resident`` keep state and weights of small layers on the multiprocessor; ``*_tiled`` read them in tiles.
``recompute`` finds gates and recommendations again from states: of all steps at once, as nothing has to be waited for.
States are kept in ``ACC``; products are taken in the type of the weights, which are [2·H, H], those of the gate first.
The arithmetic of a step is in :mod:`gatel0rd.engine.triton.steps`.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from gatel0rd.engine.triton.steps import (
    activate,
    draw_normal,
    finish_step,
    locate,
    multiply,
    read_given,
    read_mask,
    read_weights,
    step_back,
    sum_tiles,
    tanh,
)

# a kernel for any T and B: Triton would compile others for 1, whose number would be a constant, and for multiples of 16
ANY_LENGTH = ["steps", "batch"]


@triton.jit(do_not_specialize=ANY_LENGTH)
def forward_resident(
    given, seed, first, weight, resets, active, states, fresh, gates, recommended, noise_std, steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr, DRAW: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    rows, cols = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B), tl.arange(0, BLOCK_H)
    at, at_sums, inside = locate(rows, cols, batch, H)
    w_gate, w_recommend = read_weights(weight, cols[None, :], cols[:, None], H)  # [in, out]
    h, alive = tl.load(first + at, mask=inside, other=0).to(ACC), rows[:, None] < batch
    for t in range(steps):
        now = t * batch.to(tl.int64)
        if HAS_RESETS:
            h = tl.where(read_mask(resets, now, rows, batch), 0.0, h)
        if HAS_ACTIVE:
            alive = read_mask(active, now, rows, batch)
        s_gate, s_recommend = read_given(given, seed, noise_std, now, at, at_sums, inside, H, DRAW, ACC)
        s_gate = multiply(h, w_gate, s_gate, PRECISION, ACC)
        s_recommend = multiply(h, w_recommend, s_recommend, PRECISION, ACC)
        h = finish_step(
            s_gate, s_recommend, h, alive, states, fresh, gates, recommended, now, at, inside, H, HAS_ACTIVE, GATE, KEEP
        )


@triton.jit(do_not_specialize=ANY_LENGTH)
def backward_resident(
    first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, d_given, d_first,
    steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    rows, cols = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B), tl.arange(0, BLOCK_H)
    at, at_sums, inside = locate(rows, cols, batch, H)
    w_gate, w_recommend = read_weights(weight, cols[:, None], cols[None, :], H)  # [out, in]
    carry, reset, alive = tl.zeros((BLOCK_B, BLOCK_H), ACC), rows[:, None] < 0, rows[:, None] < batch
    for k in range(steps):
        now = (steps - 1 - k) * batch.to(tl.int64)
        source = states + (now - batch) * H
        if k == steps - 1:
            source = first
        if HAS_RESETS:
            reset = read_mask(resets, now, rows, batch)
        if HAS_ACTIVE:
            alive = read_mask(active, now, rows, batch)
        before = tl.load(source + at, mask=inside & ~reset, other=0).to(ACC)
        ds_gate, ds_recommend, carry = step_back(
            carry, before, alive, gates, recommended, d_states, d_fresh, d_gates, d_given, now, at, at_sums, inside, H,
            HAS_ACTIVE, GATE, ACC,
        )  # fmt: skip
        carry = multiply(ds_gate, w_gate, carry, PRECISION, ACC)
        carry = multiply(ds_recommend, w_recommend, carry, PRECISION, ACC)
        if HAS_RESETS:
            carry = tl.where(reset, 0.0, carry)
    tl.store(d_first + at, carry, mask=inside)


@triton.jit(do_not_specialize=ANY_LENGTH)
def forward_tiled(
    given, seed, first, weight, resets, active, states, fresh, gates, recommended, noise_std, steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr, DRAW: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    reset, alive = rows[:, None] < 0, rows[:, None] < batch
    for t in range(steps):
        now = t * batch.to(tl.int64)
        source = states + (now - batch) * H  # what the step before wrote
        if t == 0:
            source = first
        if HAS_RESETS:
            reset = read_mask(resets, now, rows, batch)
        if HAS_ACTIVE:
            alive = read_mask(active, now, rows, batch)
        for n in range(0, H, BLOCK_H):
            cols = n + tl.arange(0, BLOCK_H)
            at, _, inside = locate(rows, cols, batch, H)
            s_gate, s_recommend, h = sum_tiles(
                given, seed, noise_std, source, weight, now, rows, cols, reset, batch, H, DRAW, PRECISION, ACC, BLOCK_H
            )
            finish_step(
                s_gate, s_recommend, h, alive, states, fresh, gates, recommended, now, at, inside, H,
                HAS_ACTIVE, GATE, KEEP,
            )  # fmt: skip
        tl.debug_barrier()  # the next step reads what other threads of this program wrote


@triton.jit(do_not_specialize=ANY_LENGTH)
def recompute(
    given, seed, first, weight, resets, states, gates, recommended, noise_std, batch, H,
    HAS_RESETS: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr, DRAW: tl.constexpr,
):  # fmt: skip
    t, rows = tl.program_id(0), tl.program_id(1) * BLOCK_B + tl.arange(0, BLOCK_B)
    now = t * batch.to(tl.int64)
    source, reset = states + (now - batch) * H, rows[:, None] < 0
    if t == 0:
        source = first
    if HAS_RESETS:
        reset = read_mask(resets, now, rows, batch)
    for n in range(0, H, BLOCK_H):
        cols = n + tl.arange(0, BLOCK_H)
        at, _, inside = locate(rows, cols, batch, H)
        s_gate, s_recommend, _ = sum_tiles(
            given, seed, noise_std, source, weight, now, rows, cols, reset, batch, H, DRAW, PRECISION, ACC, BLOCK_H
        )
        tl.store(gates + now * H + at, activate(s_gate, GATE), mask=inside)
        tl.store(recommended + now * H + at, tanh(s_recommend), mask=inside)


@triton.jit(do_not_specialize=ANY_LENGTH)
def backward_tiled(
    first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, d_given, d_first,
    steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    # d_first carries the gradient from step to step; it is zero at the beginning
    rows = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    reset, alive = rows[:, None] < 0, rows[:, None] < batch
    for k_step in range(steps):
        now = (steps - 1 - k_step) * batch.to(tl.int64)
        source = states + (now - batch) * H
        if k_step == steps - 1:
            source = first
        if HAS_RESETS:
            reset = read_mask(resets, now, rows, batch)
        if HAS_ACTIVE:
            alive = read_mask(active, now, rows, batch)
        for n in range(0, H, BLOCK_H):
            at, at_sums, inside = locate(rows, n + tl.arange(0, BLOCK_H), batch, H)
            before = tl.load(source + at, mask=inside & ~reset, other=0).to(ACC)
            carry = tl.load(d_first + at, mask=inside, other=0).to(ACC)
            _, _, carry = step_back(
                carry, before, alive, gates, recommended, d_states, d_fresh, d_gates, d_given, now, at, at_sums, inside,
                H, HAS_ACTIVE, GATE, ACC,
            )  # fmt: skip
            tl.store(d_first + at, carry, mask=inside)
        tl.debug_barrier()
        for n in range(0, H, BLOCK_H):
            cols = n + tl.arange(0, BLOCK_H)
            at, _, inside = locate(rows, cols, batch, H)
            carry = tl.load(d_first + at, mask=inside, other=0).to(ACC)
            for k in range(0, H, BLOCK_H):
                inner = k + tl.arange(0, BLOCK_H)
                _, at_sums, known = locate(rows, inner, batch, H)
                ds_gate = tl.load(d_given + now * 2 * H + at_sums, mask=known, other=0)
                ds_recommend = tl.load(d_given + now * 2 * H + H + at_sums, mask=known, other=0)
                w_gate, w_recommend = read_weights(weight, inner[:, None], cols[None, :], H)
                carry = multiply(ds_gate, w_gate, carry, PRECISION, ACC)
                carry = multiply(ds_recommend, w_recommend, carry, PRECISION, ACC)
            if HAS_RESETS:
                carry = tl.where(reset, 0.0, carry)
            tl.store(d_first + at, carry, mask=inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=ANY_LENGTH)
def draw_noise(seed, noise, noise_std, batch, H, BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr):
    """The noise that the other kernels draw from a seed, for those who have to see it."""
    now, rows = tl.program_id(0) * batch.to(tl.int64), tl.program_id(1) * BLOCK_B + tl.arange(0, BLOCK_B)
    for n in range(0, H, BLOCK_H):
        at, _, inside = locate(rows, n + tl.arange(0, BLOCK_H), batch, H)
        tl.store(noise + now * H + at, noise_std * draw_normal(seed, now, at, H), mask=inside)
