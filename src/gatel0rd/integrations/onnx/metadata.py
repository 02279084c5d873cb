"""A finished ONNX model, checked, that says what it is."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gatel0rd import __version__
from gatel0rd.integrations.onnx.graph import Graph, import_onnx
from gatel0rd.models.fitted import FittedModel

OPSET = 17


def make_model(fitted: FittedModel, graph: Graph, kind: str, text: str) -> Any:
    """A checked ONNX model that says what it is."""
    helper = import_onnx("helper")
    opsets = [helper.make_opsetid("", OPSET)]
    config = fitted.model.config
    seen, acted = list(fitted.observation_names), list(fitted.action_names)
    model = helper.make_model(
        graph.make_graph(kind),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),  # older runtimes refuse newer ones
        producer_name="gatel0rd",
        producer_version=__version__,
        doc_string=f"{text} Inputs and predictions are in the data's units. Observations: {', '.join(seen)}."
        + (f" Actions: {', '.join(acted)}." if acted else ""),
    )
    about = {
        "gatel0rd.version": __version__,
        "gatel0rd.kind": kind,
        "gatel0rd.cell": fitted.cell,
        "gatel0rd.config": json.dumps(dataclasses.asdict(config)),
        "gatel0rd.observations": json.dumps(seen),
        "gatel0rd.actions": json.dumps(acted),
        "gatel0rd.init_steps": str(config.init_steps),
    }
    helper.set_model_props(model, about)
    import_onnx("checker").check_model(model, full_check=True)
    return model
