"""The engine's operators: what PyTorch asks of one, and what torch.compile, torch.export and vmap make of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from shapes import INPUT, B, H, T
from torch import nn
from torch._dynamo import utils as dynamo

from gatel0rd import GateL0RD, WorldModel
from gatel0rd.engine import instruction_sets, operators, use_instruction_set
from gatel0rd.engine.compiled import Compiled
from gatel0rd.engine.operators import layers
from gatel0rd.engine.program import read_program, write_program
from gatel0rd.engine.random import sample_normal
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.cells import GateL0RDCore, build_cell
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.gated_layer import read_networks
from gatel0rd.nn.unroll import cell_program, unroll

SIZES = [H, 64]


class Layers(nn.Module):
    def __init__(self, hidden=H, **options):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = GateL0RD(INPUT, hidden, num_layers=2, mask_means="starts", **options)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, mask=None):
        outputs, h_n, gates = self.rnn(x, None, mask, return_gates=True)
        return self.head(outputs), h_n, gates


class AnyCell(nn.Module):
    def __init__(self, name):
        super().__init__()
        torch.manual_seed(0)
        self.cell = build_cell(CellConfig(name=name, hidden_size=5, num_layers=2), INPUT, 4)

    def forward(self, x, mask=None):
        run = unroll(self.cell, x, resets=mask)
        return (run.outputs, run.latents, *run.state)


class World(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = WorldModel(WorldModelConfig(observation_size=INPUT, action_size=2))

    def forward(self, x, mask=None):
        rollout = self.model(x, x[..., :2], mask)
        return (rollout.predictions, rollout.latents, *rollout.state)


def differentiate(model, run, *given):
    x = given[0].detach().requires_grad_()
    results = run(x, *given[1:])
    total = sum((result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum() for result in results)
    return [*results, *torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)]


def assert_all_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_programs_as_text_are_the_same_programs():
    for name in ("gatel0rd", "lstm", "clockwork"):
        cell = build_cell(CellConfig(name=name, hidden_size=5, num_layers=2), INPUT, 4)
        program = cell_program(cell, False, True, True)
        assert read_program(write_program(program)) == program


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "clockwork"])
def test_pytorch_accepts_the_operator_for_programs(name):
    cell = build_cell(CellConfig(name=name, hidden_size=4), INPUT, 4)
    program = cell_program(cell, False, False, False)
    x = torch.randn(T, B, INPUT, requires_grad=True)
    start = [state.requires_grad_() for state in cell.initial_state(B, x)]
    masks = [cell.get_buffer(program.masks[number]) for number in sorted(program.masks)]
    parameters = [cell.get_parameter(name) for name in program.parameters]
    torch.library.opcheck(operators.run_program, (write_program(program), [x], start, parameters, masks, False))


@pytest.mark.slow
@pytest.mark.parametrize("hidden", SIZES)
@pytest.mark.parametrize("given", ["nothing", "everything"])
def test_pytorch_accepts_the_operator_for_layers(hidden, given):
    cell = GateL0RDCore(INPUT, hidden, 4, output_gate=given == "everything", bias=given == "everything")
    (g,), (r,), output, output_gate = read_networks(cell)
    x, first = torch.randn(T, B, INPUT, requires_grad=True), torch.randn(B, hidden, requires_grad=True)
    extras = [None, None, None]
    if given == "everything":
        extras = [torch.randn(T, B, hidden), torch.rand(T, B) < 0.3, torch.rand(T, B) < 0.7]
    use = [extra is not None for extra in extras]
    text = "" if hidden == 64 else write_program(cell_program(cell, *use))
    weights = [*g, *r, *output, *(output_gate or (None, None))]
    torch.library.opcheck(operators.gated_layer, ("retanh", text, x, first, *extras, *weights))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [Layers, lambda: Layers(64), lambda: AnyCell("lstm"), lambda: AnyCell("clockwork"), World],
    ids=["small layers", "large layers", "lstm", "clockwork", "world model"],
)  # fmt: skip
def test_compiled_models_are_one_graph_for_all_shapes(make):
    torch._dynamo.reset()
    dynamo.counters.clear()
    model = make().eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for steps, batch in ((T, B), (9, 4), (12, 6)):
        x, mask = torch.randn(steps, batch, INPUT), torch.rand(steps, batch) < 0.3
        assert_all_close(differentiate(model, compiled, x, mask), differentiate(model, model, x, mask))
    assert dynamo.counters["stats"]["unique_graphs"] == 1 and not dynamo.counters["graph_break"]


@pytest.mark.slow
def test_compiled_models_train_with_noise_and_dropout():
    torch._dynamo.reset()
    model = Layers(dropout=0.5)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    outputs, _, gates = compiled(torch.randn(T, B, INPUT))
    outputs.sum().backward()
    assert model.rnn.stack.layers[0].gate_net[0].weight.grad.abs().sum() > 0
    assert not torch.equal(compiled(torch.randn(T, B, INPUT))[2], gates)
    compiled(torch.randn(T, B + 2, INPUT))[0].sum().backward()  # sizes vary from here on


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_in_a_graph_is_normal_and_follows_the_seed(dtype):
    torch._dynamo.reset()

    def draw(like):
        return sample_normal((*like.shape[:2], 7), 0.5, like=like)

    compiled = torch.compile(draw, fullgraph=True)
    for steps in (100, 200):
        like = torch.empty(steps, 30, 2, dtype=dtype)
        torch.manual_seed(1)
        first, second = compiled(like), compiled(like)
        torch.manual_seed(1)
        assert torch.equal(compiled(like), first) and not torch.equal(first, second)
        assert first.shape == (steps, 30, 7) and first.dtype == dtype
        assert first.mean().abs() < 0.02 and abs(first.std() - 0.5) < 0.02
        assert torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1].abs() < 0.03


def compiled_loss(cell):
    torch._dynamo.reset()
    return torch.compile(lambda x: unroll(cell, x).outputs.square().sum(), fullgraph=True, backend="aot_eager")


def count_passes(monkeypatch):
    """Each forward pass of a program."""
    passes, real = [], Compiled.forward
    monkeypatch.setattr(Compiled, "forward", lambda *given, **named: passes.append(1) or real(*given, **named))
    return passes


def test_a_graph_keeps_the_tape_of_its_forward_pass(monkeypatch, instruction_set):
    for batch in (1, 5, 40, 70):  # rows of each width
        cell, x = GateL0RDCore(INPUT, H, 4), torch.randn(T, batch, INPUT, requires_grad=True)
        run = compiled_loss(cell)
        passes = count_passes(monkeypatch)
        ours = torch.autograd.grad(run(x), [x, *cell.parameters()])
        assert len(passes) == 1
        theirs = torch.autograd.grad(unroll(cell, x).outputs.square().sum(), [x, *cell.parameters()])
        assert all(map(torch.equal, ours, theirs))
        with torch.no_grad():
            assert torch.equal(run(x), unroll(cell, x).outputs.square().sum())


@pytest.mark.parametrize("change", ["instruction set", "alignment", "content", "type"])
def test_a_tape_that_was_changed_is_made_again(monkeypatch, change):
    cell, x = GateL0RDCore(INPUT, H, 4), torch.randn(T, B, INPUT, requires_grad=True)
    sets = instruction_sets()

    def unpack(tensor):
        if tensor.dtype != torch.uint8:
            return tensor
        if change == "alignment":
            return torch.cat([tensor.new_zeros(3), tensor])[3:]
        return {"content": torch.zeros_like(tensor), "type": tensor.float()}.get(change, tensor)

    text = write_program(cell_program(cell, False, False, False))
    parameters, start = list(cell.parameters()), torch.zeros(B, H)
    passes = count_passes(monkeypatch)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack), use_instruction_set(sets[-1]):
        loss = operators.run_program(text, [x], [start], parameters, [], True)[0].square().sum()
    later = sets[0] if change == "instruction set" else sets[-1]
    with use_instruction_set(later):
        ours = torch.autograd.grad(loss, [x, *parameters])
    assert len(passes) == (1 if later == sets[-1] and change == "instruction set" else 2)
    assert_all_close(ours, torch.autograd.grad(unroll(cell, x).outputs.square().sum(), [x, *parameters]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_the_default_compiler_takes_any_number_of_steps():
    """The size of the graph, and so the time to compile it, does not depend on T."""
    torch._dynamo.reset()
    model = Layers().eval()
    compiled = torch.compile(model, fullgraph=True)
    for steps in (3, 500):
        x = torch.randn(steps, B, INPUT)
        assert_all_close(differentiate(model, compiled, x), differentiate(model, model, x))
    sizes = []
    for steps in (3, 500):
        torch._dynamo.reset()

        def count(graph, inputs):
            sizes.append(len(graph.graph.nodes))
            return graph

        torch.compile(model, fullgraph=True, backend=count)(torch.randn(steps, B, INPUT))
    assert sizes[0] == sizes[1]


@pytest.mark.slow
def test_a_changed_module_is_compiled_anew():
    torch._dynamo.reset()
    model, x = Layers().eval(), torch.randn(T, B, INPUT)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    before = compiled(x)[0]
    model.rnn.stack.layers[0].recommendation_net[1] = nn.ReLU()
    assert not torch.allclose(compiled(x)[0], before)
    model.rnn.engine = "torch"
    torch.testing.assert_close(compiled(x)[0], model(x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("make", [Layers, lambda: Layers(64), World], ids=["small layers", "large layers", "world"])
def test_exported_models_need_nothing_of_their_process(make, tmp_path):
    model, dims = make().eval(), {0: torch.export.Dim("T", min=1), 1: torch.export.Dim("B", min=1)}
    exported = torch.export.export(model, (torch.randn(T, B, INPUT),), dynamic_shapes=(dims,))
    operations = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert operations & {"gatel0rd.gated_layer.default", "gatel0rd.run_program.default"}
    x = torch.randn(9, 4, INPUT)
    assert_all_close(exported.module()(x), model(x))
    torch.export.save(exported, tmp_path / "model.pt2")
    torch.save((x, [result.detach() for result in model(x)]), tmp_path / "expected.pt")
    script = (
        "import sys, torch, gatel0rd.engine.operators\n"
        "path = sys.argv[1]\n"
        "x, expected = torch.load(path + '/expected.pt')\n"
        "found = torch.export.load(path + '/model.pt2').module()(x)\n"
        "assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


@pytest.mark.parametrize("hidden", SIZES)
def test_mapped_layers_are_one_call(hidden, monkeypatch):
    """Entries become entries of the batch; mapped weights are a call each."""
    rnn = GateL0RD(INPUT, hidden).eval().requires_grad_(False)
    x, h = torch.randn(B, 4, T, INPUT), torch.randn(4, 1, B, hidden)
    passes, forward = count_passes(monkeypatch), layers.forward_layer
    monkeypatch.setattr(layers, "forward_layer", lambda *given: passes.append(1) or forward(*given))
    mapped = torch.func.vmap(lambda x, h: rnn(x.transpose(0, 1), h)[:2], (1, 0), 1)(x, h)
    assert len(passes) == 1
    for k in range(4):
        for ours, theirs in zip(mapped, rnn(x[:, k].transpose(0, 1), h[k])[:2], strict=True):
            torch.testing.assert_close(ours[:, k], theirs)
    many = {name: torch.stack([value, 2 * value]) for name, value in rnn.named_parameters()}
    one = x[:, 0].transpose(0, 1)
    both = torch.func.vmap(lambda given: torch.func.functional_call(rnn, given, (one,))[0])(many)
    torch.testing.assert_close(both[0], rnn(one)[0])
    twice = torch.func.functional_call(rnn, {name: value[1] for name, value in many.items()}, (one,))[0]
    torch.testing.assert_close(both[1], twice)


def test_mapped_programs():
    cell = build_cell(CellConfig(name="lstm", hidden_size=H, num_layers=2), INPUT, 4).requires_grad_(False)
    x = torch.randn(3, T, B, INPUT)
    mapped = torch.func.vmap(lambda x: unroll(cell, x)[:2])(x)
    for ours, theirs in zip(mapped, unroll(cell, x[2])[:2], strict=True):
        torch.testing.assert_close(ours[2], theirs)


@pytest.mark.slow
def test_weights_changed_in_place_before_backward_are_noticed_in_a_graph():
    torch._dynamo.reset()
    model = Layers().eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    outputs = compiled(torch.randn(T, B, INPUT))[0].sum()
    with torch.no_grad():
        model.rnn.stack.layers[0].output_net.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.backward()
