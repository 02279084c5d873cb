"""A user's own module with the layer inside as ONNX, by PyTorch's exporter, for any number of steps and entries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from shapes import INPUT, B, T
from torch import nn

from gatel0rd import GateL0RD

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


class Model(nn.Module):
    def __init__(self, hidden, masked, **options):
        super().__init__()
        torch.manual_seed(0)
        self.masked = masked
        self.rnn = GateL0RD(INPUT, hidden, num_layers=2, mask_means="starts", **options)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, mask):
        outputs, h_n, gates = self.rnn(x, None, mask if self.masked else None, return_gates=True)
        return self.head(outputs), h_n, gates, mask.sum()


@pytest.mark.parametrize(
    ("hidden", "masked", "options"),
    [
        (4, True, {}),
        (64, False, {"gate": "sigmoid", "output_gate": False, "bias": False}),
        (5, True, {"gate": "heaviside"}),
    ],
)
def test_onnxruntime_computes_the_same_for_any_shape(hidden, masked, options, tmp_path):
    import onnxruntime

    from gatel0rd.integrations.onnx.translation import translations

    model, path = Model(hidden, masked, **options).eval(), str(tmp_path / "model.onnx")
    steps, batch = torch.export.Dim("T"), torch.export.Dim("B")
    torch.onnx.export(
        model,
        (torch.randn(T, B, INPUT), torch.rand(T, B) < 0.3),
        path,
        dynamo=True,
        dynamic_shapes=({0: steps, 1: batch}, {0: steps, 1: batch}),
        custom_translation_table=translations(),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    for count, entries in ((11, 4), (2, 9)):
        x, mask = torch.randn(count, entries, INPUT), torch.rand(count, entries) < 0.3
        found = session.run(None, dict(zip(names, (x.numpy(), mask.numpy()), strict=True)))
        for ours, theirs in zip(found, model(x, mask), strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_without_the_translation_there_is_an_error_and_no_wrong_file(tmp_path):
    model, path = Model(4, True).eval(), tmp_path / "model.onnx"
    with pytest.raises(torch.onnx.OnnxExporterError):
        torch.onnx.export(
            model, (torch.randn(T, B, INPUT), torch.rand(T, B) < 0.3), str(path), dynamo=True, verbose=False
        )
    assert not path.exists()


@pytest.mark.parametrize("hidden", [4, 64])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_the_older_exporter_records_what_depends_on_the_input(hidden, tmp_path):
    import onnxruntime

    model, path = Model(hidden, True).eval(), str(tmp_path / "model.onnx")
    given = [(torch.randn(T, B, INPUT), torch.rand(T, B) < 0.3) for _ in range(2)]
    torch.onnx.export(model, given[0], path, input_names=["x", "mask"], dynamo=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": given[1][0].numpy(), "mask": given[1][1].numpy()})
    for ours, theirs in zip(found, model(*given[1]), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"headless": True}, {"scalar_gate": True}, {"net_layers": 2}], ids=str)
def test_what_has_no_translation_is_an_error_that_says_what_to_do(options, tmp_path):
    from gatel0rd.integrations.onnx.translation import translations

    model, path = Model(4, True, **options).eval(), tmp_path / "model.onnx"
    given = torch.randn(T, B, INPUT), torch.rand(T, B) < 0.3
    table = {"dynamo": True, "verbose": False, "custom_translation_table": translations()}
    with pytest.raises(torch.onnx.OnnxExporterError) as caught:
        torch.onnx.export(model, given, str(path), **table)
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, NotImplementedError):
        error = error.__cause__
    assert "make the module with engine='torch'" in str(error) and not path.exists()
    torch.onnx.export(Model(4, True, engine="torch", **options).eval(), given, str(path), **table)
    assert path.exists()
