from __future__ import annotations

import copy
import itertools
import pickle

import pytest
import torch
from shapes import INPUT, OUTPUT, B, H, T
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from gatel0rd import GateL0RD, GateL0RDCell
from gatel0rd.nn.functional import l0_penalty

LAYERS = 3


def layer(**options) -> GateL0RD:
    torch.manual_seed(0)
    return GateL0RD(INPUT, H, OUTPUT, LAYERS, dtype=torch.float64, **options)


def inputs(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_shapes_follow_nn_gru():
    rnn = layer()
    output, h_n, gates = rnn(inputs(T, B, INPUT), return_gates=True)
    assert output.shape == (T, B, OUTPUT)
    assert h_n.shape == (LAYERS, B, H)
    assert gates.shape == (T, B, LAYERS * H)
    output, h_n = rnn(inputs(T, INPUT))
    assert output.shape == (T, OUTPUT)
    assert h_n.shape == (LAYERS, H)
    assert GateL0RD(INPUT, H)(torch.randn(T, B, INPUT))[0].shape == (T, B, H)


def test_an_nn_gru_user_can_swap_the_name():
    options = {"num_layers": 2, "batch_first": True, "dropout": 0.1}
    x, h0 = torch.randn(B, T, INPUT), torch.randn(2, B, H)
    results = [make(INPUT, H, **options)(x, h0) for make in (torch.nn.GRU, GateL0RD)]
    assert [tensor.shape for tensor in results[0]] == [tensor.shape for tensor in results[1]]


@pytest.mark.usefixtures("instruction_set")
def test_batch_first_unbatched_and_batched_agree():
    rnn, first = layer().eval(), layer(batch_first=True).eval()
    x, h0 = inputs(T, B, INPUT), inputs(LAYERS, B, H)
    output, h_n, gates = rnn(x, h0, return_gates=True)
    swapped = first(x.transpose(0, 1), h0, return_gates=True)
    assert torch.equal(swapped[0].transpose(0, 1), output)
    assert torch.equal(swapped[1], h_n)
    assert torch.equal(swapped[2].transpose(0, 1), gates)
    for index in range(B):
        alone = rnn(x[:, index], h0[:, index], return_gates=True)
        torch.testing.assert_close(alone[0], output[:, index], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(alone[1], h_n[:, index], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(alone[2], gates[:, index], rtol=1e-13, atol=1e-15)


@pytest.mark.usefixtures("instruction_set")
def test_carrying_the_state_equals_one_call():
    rnn, x = layer().eval(), inputs(T, B, INPUT)
    whole, h_n = rnn(x)
    first, h = rnn(x[:3])
    second, h = rnn(x[3:], h)
    assert torch.equal(torch.cat([first, second]), whole)
    assert torch.equal(h, h_n)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_packed_sequences_equal_sequences_alone(enforce_sorted):
    rnn = layer().eval()
    lengths = [7, 5, 5, 2, 1] if enforce_sorted else [5, 1, 7, 2, 5]
    sequences = [inputs(length, INPUT) for length in lengths]
    h0 = inputs(LAYERS, B, H)
    output, h_n, gates = rnn(pack_sequence(sequences, enforce_sorted=enforce_sorted), h0, return_gates=True)
    padded, found = pad_packed_sequence(output)
    opened, _ = pad_packed_sequence(gates)
    assert found.tolist() == lengths
    for index, sequence in enumerate(sequences):
        alone = rnn(sequence, h0[:, index], return_gates=True)
        torch.testing.assert_close(padded[: lengths[index], index], alone[0], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(h_n[:, index], alone[1], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(opened[: lengths[index], index], alone[2], rtol=1e-13, atol=1e-15)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("batch_first", [False, True])
def test_mask_resets_where_an_episode_starts(batch_first):
    rnn = layer(batch_first=batch_first).eval()
    x, h0 = inputs(T, B, INPUT), inputs(LAYERS, B, H)
    mask = torch.zeros(T, B, dtype=torch.bool)
    mask[0, 1] = mask[4, 2] = mask[2, 3] = mask[5, 3] = True
    starts = {0: [], 1: [0], 2: [4], 3: [2, 5], 4: []}
    swap = (lambda tensor: tensor.transpose(0, 1)) if batch_first else (lambda tensor: tensor)
    output, h_n = rnn(swap(x), h0, mask=swap(mask))
    output = swap(output)
    for index, cuts in starts.items():
        edges = sorted({0, *cuts, T})
        for begin, end in itertools.pairwise(edges):
            state = torch.zeros(LAYERS, H, dtype=torch.float64) if begin in cuts else h0[:, index]
            part, state = rnn(x[begin:end, index], state)
            torch.testing.assert_close(output[begin:end, index], part, rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(h_n[:, index], state, rtol=1e-13, atol=1e-15)


def test_a_mask_means_what_it_was_said_to_mean():
    x, h0 = inputs(T, B, INPUT), inputs(LAYERS, B, H)
    everywhere = torch.ones(T, B, dtype=torch.bool)
    starts, valid, auto = (layer(mask_means=means).eval() for means in ("starts", "valid", "auto"))
    alone = torch.stack([starts(x[t : t + 1])[0][0] for t in range(T)])
    torch.testing.assert_close(starts(x, h0, mask=everywhere)[0], alone, rtol=1e-13, atol=1e-15)
    assert torch.equal(valid(x, h0, mask=everywhere)[0], valid(x, h0)[0])
    assert torch.equal(auto(x, h0, mask=everywhere)[0], valid(x, h0)[0])
    assert torch.equal(auto(x[:1], h0, mask=everywhere[:1])[0], starts(x[:1])[0])
    padding = torch.arange(T).unsqueeze(1) < torch.tensor([7, 1, 4, 2, 6])
    assert torch.equal(valid(x, h0, mask=padding)[1], auto(x, h0, mask=padding)[1])
    torch.testing.assert_close(valid(x, h0, mask=padding)[1][:, 2], valid(x[:4], h0)[1][:, 2])


def test_packed_sequences_keep_the_callers_order_of_equals():
    rnn, gru = GateL0RD(INPUT, H).eval(), torch.nn.GRU(INPUT, H)
    packed = pack_sequence([torch.randn(3, INPUT) for _ in range(B)], enforce_sorted=False)
    ours, theirs = rnn(packed)[0], gru(packed)[0]
    assert torch.equal(ours.sorted_indices, theirs.sorted_indices)
    assert torch.equal(ours.batch_sizes, theirs.batch_sizes)
    torch.testing.assert_close(ours.data[:B], rnn(packed.data[:B].unsqueeze(0))[0][0])
    assert rnn(pack_sequence([torch.randn(3, INPUT)]))[0].sorted_indices is None


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("hidden", [H, 64])
def test_the_default_device_does_not_matter(bidirectional, enforce_sorted, hidden):
    rnn = GateL0RD(INPUT, hidden, bidirectional=bidirectional)
    packed = pack_sequence([torch.randn(length, INPUT) for length in (7, 5, 2)], enforce_sorted=enforce_sorted)
    for given in (packed, torch.randn(T, B, INPUT)):
        torch.manual_seed(1)
        expected, h_n = rnn(given)
        torch.manual_seed(1)
        with torch.device("meta"):
            output, h = rnn(given)
        for ours, theirs in ((getattr(output, "data", output), getattr(expected, "data", expected)), (h, h_n)):
            assert torch.equal(ours, theirs)


def test_autocast_is_allowed():
    rnn = GateL0RD(INPUT, H)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = rnn(torch.randn(T, B, INPUT).bfloat16())
    assert output.dtype == torch.bfloat16


def test_gate_noise_is_off_in_eval_and_follows_the_generator():
    rnn, x = layer(), inputs(T, B, INPUT)
    noisy = [rnn(x, generator=torch.Generator().manual_seed(seed))[0] for seed in (3, 3, 4)]
    assert torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], noisy[2])
    rnn.eval()
    assert torch.equal(rnn(x)[0], rnn(x, generator=torch.Generator().manual_seed(3))[0])
    assert not torch.equal(rnn(x)[0], noisy[0])
    silent = GateL0RD(INPUT, H, noise_std=0.0)
    assert torch.equal(silent(x.float())[0], silent.eval()(x.float())[0])


def test_a_given_generator_leaves_the_global_one_alone():
    rnn, before = layer(), torch.get_rng_state()
    rnn(inputs(T, B, INPUT), generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("instruction_set")
def test_closed_gates_hold_and_open_gates_move_over_time():
    rnn = GateL0RD(INPUT, 16)
    x = torch.randn(T, B, INPUT, generator=torch.Generator().manual_seed(5))
    h = torch.randn(1, B, 16, generator=torch.Generator().manual_seed(6))
    rnn.eval()
    for t in range(T):
        _, h_next, gates = rnn(x[t : t + 1], h, return_gates=True)
        closed = gates == 0
        assert closed.any() and not closed.all()
        assert torch.equal(h_next[closed], h[closed])
        assert (h_next[~closed] != h[~closed]).all()
        h = h_next


def test_the_penalty_closes_gates():
    """Trained on nothing but the L0 penalty, gates close."""
    torch.manual_seed(0)
    rnn, x = GateL0RD(INPUT, 8), torch.randn(T, 32, INPUT)
    optimizer = torch.optim.Adam(rnn.parameters(), lr=0.02)
    rates = []
    for _ in range(150):
        _, _, gates = rnn(x, return_gates=True)
        loss = l0_penalty(gates)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.append(loss.item())
    assert rates[0] > 0.3
    assert rates[-1] < 0.02


def test_dropout_acts_between_layers_while_training_only():
    rnn, x = layer(dropout=0.5, noise_std=0.0), inputs(T, B, INPUT)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    assert torch.equal(rnn.eval()(x)[0], layer(noise_std=0.0)(x)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("hidden", [H, 64])
def test_dropout_may_be_changed(hidden, bidirectional):
    options = {"num_layers": 2, "noise_std": 0.0, "bidirectional": bidirectional}
    rnn, made = (GateL0RD(INPUT, hidden, **options, dropout=dropout) for dropout in (0.0, 0.5))
    made.load_state_dict(rnn.state_dict())
    x = torch.randn(T, B, INPUT)
    without = rnn(x)[0]
    rnn.dropout = 0.5
    for other in (rnn, copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert other.dropout == other.stack.dropout == 0.5
        found = []
        for module in (other, made):
            torch.manual_seed(1)
            found.append(module(x)[0])
        assert torch.allclose(*found) and not torch.allclose(found[0], without)
    assert repr(rnn) == repr(made) and "dropout=0.5" in repr(made)
    rnn.dropout = 0
    assert torch.allclose(rnn(x)[0], without) and rnn.state_dict().keys() == made.state_dict().keys()
    with pytest.raises(ValueError, match=r"dropout is 1\.5; expected a probability between 0 and 1"):
        rnn.dropout = 1.5
    assert rnn.dropout == 0


def test_state_dict_deepcopy_and_conversion():
    rnn, x = layer().eval(), inputs(T, B, INPUT)
    fresh = GateL0RD(INPUT, H, OUTPUT, LAYERS, dtype=torch.float64).eval()
    fresh.load_state_dict(rnn.state_dict())
    assert torch.equal(fresh(x)[0], rnn(x)[0])
    assert torch.equal(copy.deepcopy(rnn)(x)[0], rnn(x)[0])
    single = copy.deepcopy(rnn).to(torch.float32)
    torch.testing.assert_close(single(x.float())[0].double(), rnn(x)[0], rtol=1e-4, atol=1e-5)
    assert layer(bias=False).state_dict().keys() == {name for name in rnn.state_dict() if "bias" not in name}


def test_functional_call_and_seeds_vmapped_equal_seeds_alone():
    seeds = [GateL0RD(INPUT, H, OUTPUT, dtype=torch.float64).eval() for _ in range(4)]
    x = inputs(T, B, INPUT)
    parameters, buffers = stack_module_state(seeds)
    base = copy.deepcopy(seeds[0]).to("meta").eval()

    def run(parameters, buffers, x):
        return functional_call(base, (parameters, buffers), (x,), {"return_gates": True})

    output, h_n, gates = vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)
    for index, rnn in enumerate(seeds):
        alone = rnn(x, return_gates=True)
        torch.testing.assert_close(output[index], alone[0], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(h_n[index], alone[1], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(gates[index], alone[2], rtol=1e-12, atol=1e-14)


def test_vmapped_gradients_with_gate_noise():
    seeds = [GateL0RD(INPUT, H) for _ in range(3)]
    parameters, buffers = stack_module_state(seeds)
    base = copy.deepcopy(seeds[0]).to("meta")

    def loss(parameters, buffers, x):
        output, _, gates = functional_call(base, (parameters, buffers), (x,), {"return_gates": True})
        return output.square().mean() + 0.1 * l0_penalty(gates)

    grad = vmap(torch.func.grad(loss), in_dims=(0, 0, None), randomness="different")
    gradients = grad(parameters, buffers, torch.randn(T, B, INPUT))
    assert all(value.shape[0] == 3 and value.isfinite().all() for value in gradients.values())
    assert any(value.abs().max() > 0 for value in gradients.values())


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}], ids=["forward", "both ways"])
@pytest.mark.parametrize("hidden", [H, 64])
def test_seeds_vmapped_in_training_mode(hidden, options):
    seeds = [GateL0RD(INPUT, hidden, noise_std=0.5, **options) for _ in range(3)]
    stacked, x = stack_module_state([seeds[0]] * 3), torch.randn(T, B, INPUT)

    def run(parameters, buffers):
        return functional_call(seeds[0], (parameters, buffers), (x,))[0]

    different, same = (vmap(run, randomness=how)(*stacked) for how in ("different", "same"))
    assert torch.allclose(same[0], same[1]) and not torch.allclose(different[0], different[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(run)(*stacked)
    gradients = torch.func.grad(lambda own: functional_call(seeds[0], own, (x,))[0].sum())(
        dict(seeds[0].named_parameters())
    )
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@pytest.mark.filterwarnings("ignore::gatel0rd.engine.SlowPathWarning")
@pytest.mark.parametrize("hidden", [H, 64])
def test_a_layer_inside_of_torch_func_that_depends_on_nothing_there(hidden):
    rnn, x, factors = GateL0RD(INPUT, hidden).eval(), torch.randn(T, B, INPUT), torch.arange(4.0)
    mapped = vmap(lambda factor: factor * rnn(x)[0])(factors)
    torch.testing.assert_close(mapped, factors[:, None, None, None] * rnn(x)[0])
    mapped.sum().backward()
    assert all(parameter.grad is not None for parameter in rnn.parameters())


@pytest.mark.usefixtures("instruction_set")
def test_cell_steps_equal_the_layer():
    torch.manual_seed(0)
    cell = GateL0RDCell(INPUT, H, OUTPUT, dtype=torch.float64).eval()
    rnn = GateL0RD(INPUT, H, OUTPUT, dtype=torch.float64).eval()
    rnn.stack.layers[0].load_state_dict(cell.cell.state_dict())
    x, h = inputs(T, B, INPUT), None
    output, h_n, gates = rnn(x, return_gates=True)
    for t in range(T):
        y, h, gate = cell(x[t], h, return_gates=True)
        torch.testing.assert_close(y, output[t], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(gate, gates[t], rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(h, h_n[0], rtol=1e-13, atol=1e-15)
    y, h = cell(x[0, 2])
    torch.testing.assert_close(y, output[0, 2], rtol=1e-13, atol=1e-15)
    assert h.shape == (H,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rnn: rnn(inputs(T, B, 4)), "input has 4 features; the layer was made with input_size=3"),
        (lambda rnn: rnn(inputs(3)), r"input has shape \(3,\); expected \(T, B, I\) or \(T, I\)"),
        (lambda rnn: rnn(inputs(T, B, INPUT).float()), "input is torch.float32 and the weights are torch.float64"),
        (lambda rnn: rnn(inputs(T, B, INPUT), inputs(1, B, H)), r"hx has shape \(1, 5, 2\); expected \(3, 5, 2\)"),
        (lambda rnn: rnn(inputs(T, B, INPUT), inputs(LAYERS, B, H).float()), "hx is torch.float32 and input is"),
        (
            lambda rnn: rnn(inputs(T, B, INPUT), mask=torch.ones(B, T)),
            r"mask has shape \(5, 7\) and dtype torch.float32",
        ),
        (lambda rnn: rnn(inputs(0, B, INPUT)), "the sequence has 0 time steps"),
        (
            lambda rnn: rnn(pack_sequence([inputs(2, INPUT)]), mask=torch.ones(2)),
            "mask was given with a PackedSequence",
        ),
        (lambda rnn: rnn(inputs(T, INPUT), inputs(1, 1, H)), r"hx has shape \(1, 1, 2\); expected \(3, 2\)"),
        (
            lambda rnn: rnn(inputs(T, B, INPUT), (inputs(3, B, H),) * 2),
            r"hx is a tuple; expected one tensor of shape \(3,",
        ),
        (lambda rnn: GateL0RD(2, 3, mask_means="ends"), "mask_means is 'ends'; expected auto, starts or valid"),
        (lambda rnn: GateL0RD(0, 3), "input_size is 0; expected a positive number"),
        (lambda rnn: GateL0RD(2, 3.0), "hidden_size is 3.0; expected a whole number"),
        (lambda rnn: GateL0RD(2, None), "hidden_size is None; expected a whole number"),
        (lambda rnn: GateL0RDCell(2, 3, net_layers=2.0), "net_layers is 2.0; expected a whole number"),
        (lambda rnn: GateL0RD(2, 3, net_layers=0), "net_layers is 0; expected a positive number"),
        (lambda rnn: GateL0RD(2, 3, dropout=1.5), "dropout is 1.5; expected a probability"),
        (lambda rnn: GateL0RD(2, 3, dropout="0.1"), "dropout is '0.1'; expected a number"),
        (lambda rnn: GateL0RDCell(INPUT, H)(torch.randn(2, 2, INPUT)), r"input has shape \(2, 2, 3\)"),
    ],
)
def test_errors_say_what_was_given_and_expected(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(layer())


def test_a_layer_says_how_it_was_made():
    options = {"dropout": 0.5, "num_layers": 2, "bidirectional": True, "gate": "sigmoid", "noise_std": 0.2}
    text, plain = repr(GateL0RD(INPUT, H, OUTPUT, **options)), repr(GateL0RD(INPUT, H))
    for said in ("3, 2, output_size=", "dropout=0.5", "bidirectional=True", "gate=sigmoid, noise_std=0.2"):
        assert said in text
    assert "dropout" not in plain and "bidirectional" not in plain


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("net_layers", [1, 2])
def test_gates_and_states_stay_in_float32_under_autocast(engine, net_layers):
    """THICK-like world models sum up small changes of the state over many steps."""
    rnn, cell = GateL0RD(INPUT, H, engine=engine, net_layers=net_layers).eval(), GateL0RDCell(INPUT, H).eval()
    x, h0 = torch.randn(T, B, INPUT), torch.randn(1, B, H)
    expected = rnn(x, h0, return_gates=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = rnn(x.bfloat16(), h0.bfloat16(), return_gates=True)
        one = cell(x[0].bfloat16(), h0[0], return_gates=True)
    assert [tensor.dtype for tensor in found] == [torch.bfloat16, torch.float32, torch.float32]
    assert [tensor.dtype for tensor in one] == [torch.bfloat16, torch.float32, torch.float32]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=0.05, atol=0.05)
    torch.testing.assert_close(one[1], cell(x[0].bfloat16().float(), h0[0])[1])


def test_what_a_mask_means_is_not_guessed_where_that_would_wait_for_numbers():
    rnn = GateL0RD(INPUT, H, device="meta")
    x, mask = torch.zeros(T, B, INPUT, device="meta"), torch.zeros(T, B, dtype=torch.bool, device="meta")
    with pytest.raises(ValueError, match=r"look at the mask's numbers, here on meta .* say mask_means='starts' or"):
        rnn(x, None, mask)
    rnn.mask_means = "starts"
    assert rnn(x, None, mask)[0].shape == (T, B, H)
