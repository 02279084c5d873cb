"""Inputs and outputs of a graph in the data's units: a model file scales by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gatel0rd.integrations.onnx.graph import Graph
from gatel0rd.models.fitted import FittedModel, Scaling

ACTIONS, OBSERVATIONS, FEED = 0, 1, 2
"""How :func:`gatel0rd.models.world_program.rollout_program` numbers its sequences."""


def split_offset(offset: Sequence[float]) -> list[NDArray[np.float32]]:
    """Two float32 numbers that together are nearly as exact as the offset: 1e6 would else swallow what varies."""
    high = np.array(offset).astype(np.float32)
    low = (np.array(offset) - high.astype(np.float64)).astype(np.float32)
    return [half for half in (high, low) if half.any()]


def scale_inputs(graph: Graph, scaling: Scaling, value: str, kind: str) -> str:
    """From the data's units to the model's."""
    for half in split_offset(scaling.offset):
        value = graph.node("Sub", value, graph.constant(half, f"{kind}.offset"))
    scale = np.array(scaling.scale, np.float32)
    return value if (scale == 1).all() else graph.node("Div", value, graph.constant(scale, f"{kind}.scale"))


def unscale_predictions(graph: Graph, scaling: Scaling, value: str) -> str:
    """From the model's units to the data's."""
    scale = np.array(scaling.scale, np.float32)
    if not (scale == 1).all():
        value = graph.node("Mul", value, graph.constant(scale, "observations.scale"))
    for half in reversed(split_offset(scaling.offset)):
        value = graph.node("Add", value, graph.constant(half, "observations.offset"))
    return value


def add_inputs(graph: Graph, fitted: FittedModel, ending: str, *leading: int | str) -> dict[int, str]:
    """Observations and actions as inputs of a graph, in the model's units, by the program's numbers."""
    seen, acted = ", ".join(fitted.observation_names), ", ".join(fitted.action_names)
    config = fitted.model.config
    observed = graph.input(f"observation{ending}", (*leading, config.observation_size), text=f"columns: {seen}")
    found = {OBSERVATIONS: scale_inputs(graph, fitted.observation_scaling, observed, "observations")}
    if config.action_size:
        action = graph.input(f"action{ending}", (*leading, config.action_size), text=f"columns: {acted}")
        found[ACTIONS] = scale_inputs(graph, fitted.action_scaling, action, "actions")
    return found


def add_outputs(
    graph: Graph, fitted: FittedModel, values: Sequence[str], sizes: Sequence[int], ending: str, *leading: str
) -> None:
    """Predictions in the data's units, latents and (if there are any) gates as outputs of a graph."""
    prediction, *others = values
    text = f"the next observation, columns: {', '.join(fitted.observation_names)}"
    back = unscale_predictions(graph, fitted.observation_scaling, prediction)
    graph.output(f"prediction{ending}", back, (*leading, sizes[0]), text=text)
    texts = ("the latent state after this input", "how far the gates are open, 0: closed")
    for name, value, size, text in zip(("latents", "gates"), others, sizes[1:], texts, strict=False):
        graph.output(name, value, (*leading, size), text=text)
