"""The recurrence of a gated layer as Triton kernels: all time steps of some batch entries in one program.

    gates[t] = Λ(given[t, :, :H] + before[t]·Wg)    recommended[t] = tanh(given[t, :, H:] + before[t]·Wr)
    fresh[t] = gates[t]·recommended[t] + (1 - gates[t])·before[t]
    states[t] = fresh[t] where active[t], else before[t]; before[t] = states[t - 1], or 0 where resets[t]

``*_resident`` keep state and weights of small layers on the multiprocessor; ``*_tiled`` read them in tiles.
States are kept in ``ACC``; products are taken in the type of the weights, which are [2·H, H], those of the gate first.
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
def forward_resident(
    given, first, weight, resets, active, states, fresh, gates, recommended, steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    rows, cols = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B), tl.arange(0, BLOCK_H)
    there, inside = rows < batch, (rows < batch)[:, None] & (cols < H)[None, :]
    at, at_given = rows[:, None] * H + cols[None, :], rows[:, None] * 2 * H + cols[None, :]
    square = (cols < H)[:, None] & (cols < H)[None, :]
    transposed = cols[None, :] * H + cols[:, None]  # [in, out]
    w_gate = tl.load(weight + transposed, mask=square, other=0)
    w_recommend = tl.load(weight + H * H + transposed, mask=square, other=0)
    h = tl.load(first + at, mask=inside, other=0).to(ACC)
    for _ in range(steps):
        if HAS_RESETS:
            reset = tl.load(resets + rows, mask=there, other=0)
            h = tl.where((reset != 0)[:, None], 0.0, h)
            resets += batch
        s_gate = tl.load(given + at_given, mask=inside, other=0).to(ACC)
        s_recommend = tl.load(given + H + at_given, mask=inside, other=0).to(ACC)
        small = h.to(w_gate.dtype)
        s_gate = tl.dot(small, w_gate, acc=s_gate, input_precision=PRECISION, out_dtype=ACC)
        s_recommend = tl.dot(small, w_recommend, acc=s_recommend, input_precision=PRECISION, out_dtype=ACC)
        gate, recommend = activate(s_gate, GATE), tanh(s_recommend)
        new = gate * recommend + (1 - gate) * h
        tl.store(gates + at, gate, mask=inside)
        tl.store(recommended + at, recommend, mask=inside)
        if HAS_ACTIVE:
            alive = tl.load(active + rows, mask=there, other=0)
            tl.store(fresh + at, new, mask=inside)
            h = tl.where((alive != 0)[:, None], new, h)
            active += batch
            fresh += batch * H
        else:
            h = new
        tl.store(states + at, h, mask=inside)
        given += batch * 2 * H
        gates += batch * H
        recommended += batch * H
        states += batch * H


@triton.jit
def backward_resident(
    first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, d_given, d_first,
    steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    rows, cols = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B), tl.arange(0, BLOCK_H)
    there, inside = rows < batch, (rows < batch)[:, None] & (cols < H)[None, :]
    at, at_given = rows[:, None] * H + cols[None, :], rows[:, None] * 2 * H + cols[None, :]
    square = (cols < H)[:, None] & (cols < H)[None, :]
    straight = cols[:, None] * H + cols[None, :]  # [out, in]
    w_gate = tl.load(weight + straight, mask=square, other=0)
    w_recommend = tl.load(weight + H * H + straight, mask=square, other=0)
    carry = tl.zeros((BLOCK_B, BLOCK_H), ACC)
    last = (steps - 1).to(tl.int64) * batch
    resets, active = resets + last, active + last
    states, gates, recommended = states + last * H, gates + last * H, recommended + last * H
    d_states, d_gates, d_given = d_states + last * H, d_gates + last * H, d_given + last * 2 * H
    d_fresh = d_fresh + last * H
    for k in range(steps):
        source = states - batch * H
        if k == steps - 1:
            source = first
        before = tl.load(source + at, mask=inside, other=0).to(ACC)
        carry += tl.load(d_states + at, mask=inside, other=0).to(ACC)
        d_new, direct = carry, tl.zeros((BLOCK_B, BLOCK_H), ACC)
        if HAS_ACTIVE:
            alive = tl.load(active + rows, mask=there, other=0)
            direct = tl.where((alive != 0)[:, None], 0.0, carry)
            d_new = tl.where((alive != 0)[:, None], carry, 0.0)
            d_new += tl.load(d_fresh + at, mask=inside, other=0).to(ACC)
            active -= batch
            d_fresh -= batch * H
        if HAS_RESETS:
            reset = tl.load(resets + rows, mask=there, other=0)
            before = tl.where((reset != 0)[:, None], 0.0, before)
        gate = tl.load(gates + at, mask=inside, other=0).to(ACC)
        recommend = tl.load(recommended + at, mask=inside, other=0).to(ACC)
        d_gate = d_new * (recommend - before) + tl.load(d_gates + at, mask=inside, other=0).to(ACC)
        ds_gate = d_gate * derive(gate, GATE)
        ds_recommend = d_new * gate * (1 - recommend * recommend)
        tl.store(d_given + at_given, ds_gate, mask=inside)
        tl.store(d_given + H + at_given, ds_recommend, mask=inside)
        carry = direct + d_new * (1 - gate)
        carry = tl.dot(ds_gate.to(w_gate.dtype), w_gate, acc=carry, input_precision=PRECISION, out_dtype=ACC)
        carry = tl.dot(ds_recommend.to(w_gate.dtype), w_recommend, acc=carry, input_precision=PRECISION, out_dtype=ACC)
        if HAS_RESETS:
            carry = tl.where((reset != 0)[:, None], 0.0, carry)
            resets -= batch
        d_states -= batch * H
        d_gates -= batch * H
        d_given -= batch * 2 * H
        gates -= batch * H
        recommended -= batch * H
        states -= batch * H
    tl.store(d_first + at, carry, mask=inside)


@triton.jit
def forward_tiled(
    given, first, weight, resets, active, states, fresh, gates, recommended, steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    there, reset, alive = rows < batch, rows * 0, rows * 0 + 1
    for t in range(steps):
        source = states - batch * H  # what the step before wrote
        if t == 0:
            source = first
        if HAS_RESETS:
            reset = tl.load(resets + rows, mask=there, other=0).to(tl.int32)
            resets += batch
        if HAS_ACTIVE:
            alive = tl.load(active + rows, mask=there, other=0).to(tl.int32)
            active += batch
        for n in range(0, H, BLOCK_H):
            cols = n + tl.arange(0, BLOCK_H)
            inside = there[:, None] & (cols < H)[None, :]
            at, at_given = rows[:, None] * H + cols[None, :], rows[:, None] * 2 * H + cols[None, :]
            s_gate = tl.load(given + at_given, mask=inside, other=0).to(ACC)
            s_recommend = tl.load(given + H + at_given, mask=inside, other=0).to(ACC)
            for k in range(0, H, BLOCK_H):
                inner = k + tl.arange(0, BLOCK_H)
                part = tl.load(
                    source + rows[:, None] * H + inner[None, :],
                    mask=(there & (reset == 0))[:, None] & (inner < H)[None, :],
                    other=0,
                ).to(weight.dtype.element_ty)
                square, transposed = (inner < H)[:, None] & (cols < H)[None, :], cols[None, :] * H + inner[:, None]
                w_gate = tl.load(weight + transposed, mask=square, other=0)
                w_recommend = tl.load(weight + H * H + transposed, mask=square, other=0)
                s_gate = tl.dot(part, w_gate, acc=s_gate, input_precision=PRECISION, out_dtype=ACC)
                s_recommend = tl.dot(part, w_recommend, acc=s_recommend, input_precision=PRECISION, out_dtype=ACC)
            h = tl.load(source + at, mask=inside & (reset == 0)[:, None], other=0).to(ACC)
            gate, recommend = activate(s_gate, GATE), tanh(s_recommend)
            new = gate * recommend + (1 - gate) * h
            tl.store(gates + at, gate, mask=inside)
            tl.store(recommended + at, recommend, mask=inside)
            if HAS_ACTIVE:
                tl.store(fresh + at, new, mask=inside)
                new = tl.where((alive != 0)[:, None], new, h)
            tl.store(states + at, new, mask=inside)
        tl.debug_barrier()  # the next step reads what other threads of this program wrote
        given += batch * 2 * H
        gates += batch * H
        recommended += batch * H
        states += batch * H
        fresh += batch * H


@triton.jit
def backward_tiled(
    first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, d_given, d_first,
    steps, batch, H,
    HAS_RESETS: tl.constexpr, HAS_ACTIVE: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
    BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    # d_first carries the gradient from step to step; it is zero at the beginning
    rows = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    there, reset, alive = rows < batch, rows * 0, rows * 0 + 1
    last = (steps - 1).to(tl.int64) * batch
    resets, active = resets + last, active + last
    states, gates, recommended = states + last * H, gates + last * H, recommended + last * H
    d_states, d_gates, d_given = d_states + last * H, d_gates + last * H, d_given + last * 2 * H
    d_fresh = d_fresh + last * H
    for k_step in range(steps):
        source = states - batch * H
        if k_step == steps - 1:
            source = first
        if HAS_RESETS:
            reset = tl.load(resets + rows, mask=there, other=0).to(tl.int32)
            resets -= batch
        if HAS_ACTIVE:
            alive = tl.load(active + rows, mask=there, other=0).to(tl.int32)
            active -= batch
        for n in range(0, H, BLOCK_H):
            cols = n + tl.arange(0, BLOCK_H)
            inside = there[:, None] & (cols < H)[None, :]
            at, at_given = rows[:, None] * H + cols[None, :], rows[:, None] * 2 * H + cols[None, :]
            before = tl.load(source + at, mask=inside & (reset == 0)[:, None], other=0).to(ACC)
            carry = tl.load(d_first + at, mask=inside, other=0).to(ACC)
            carry += tl.load(d_states + at, mask=inside, other=0).to(ACC)
            d_new, direct = carry, tl.zeros((BLOCK_B, BLOCK_H), ACC)
            if HAS_ACTIVE:
                direct = tl.where((alive != 0)[:, None], 0.0, carry)
                d_new = tl.where((alive != 0)[:, None], carry, 0.0)
                d_new += tl.load(d_fresh + at, mask=inside, other=0).to(ACC)
            gate = tl.load(gates + at, mask=inside, other=0).to(ACC)
            recommend = tl.load(recommended + at, mask=inside, other=0).to(ACC)
            d_gate = d_new * (recommend - before) + tl.load(d_gates + at, mask=inside, other=0).to(ACC)
            tl.store(d_given + at_given, d_gate * derive(gate, GATE), mask=inside)
            tl.store(d_given + H + at_given, d_new * gate * (1 - recommend * recommend), mask=inside)
            tl.store(d_first + at, direct + d_new * (1 - gate), mask=inside)
        tl.debug_barrier()
        for n in range(0, H, BLOCK_H):
            cols = n + tl.arange(0, BLOCK_H)
            inside = there[:, None] & (cols < H)[None, :]
            at = rows[:, None] * H + cols[None, :]
            carry = tl.load(d_first + at, mask=inside, other=0).to(ACC)
            for k in range(0, H, BLOCK_H):
                inner = k + tl.arange(0, BLOCK_H)
                known = there[:, None] & (inner < H)[None, :]
                at_given = rows[:, None] * 2 * H + inner[None, :]
                ds_gate = tl.load(d_given + at_given, mask=known, other=0).to(weight.dtype.element_ty)
                ds_recommend = tl.load(d_given + H + at_given, mask=known, other=0).to(weight.dtype.element_ty)
                square, straight = (inner < H)[:, None] & (cols < H)[None, :], inner[:, None] * H + cols[None, :]
                w_gate = tl.load(weight + straight, mask=square, other=0)
                w_recommend = tl.load(weight + H * H + straight, mask=square, other=0)
                carry = tl.dot(ds_gate, w_gate, acc=carry, input_precision=PRECISION, out_dtype=ACC)
                carry = tl.dot(ds_recommend, w_recommend, acc=carry, input_precision=PRECISION, out_dtype=ACC)
            tl.store(d_first + at, carry, mask=inside & (reset == 0)[:, None])
            if HAS_RESETS:
                tl.store(d_first + at, tl.zeros((BLOCK_B, BLOCK_H), ACC), mask=inside & (reset != 0)[:, None])
        tl.debug_barrier()
        d_states -= batch * H
        d_fresh -= batch * H
        d_gates -= batch * H
        d_given -= batch * 2 * H
        gates -= batch * H
        recommended -= batch * H
        states -= batch * H
