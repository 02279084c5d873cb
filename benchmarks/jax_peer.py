"""The training step of a world model in JAX (jit, scan). Needs the extra ``jax``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# one thread, as for ours in the same row; JAX reads it when it is imported
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
import jax
import jax.numpy as jnp
from torch import Tensor, nn

from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.training.config import TrainConfig


def layers_of(network: nn.Sequential | nn.Linear) -> list[tuple[Any, Any]]:
    """Weights of linear layers as JAX arrays."""
    linears = [network] if isinstance(network, nn.Linear) else [part for part in network if isinstance(part, nn.Linear)]
    return [(jnp.asarray(part.weight.detach().numpy().T), jnp.asarray(part.bias.detach().numpy())) for part in linears]


def weights_of(model: WorldModel) -> dict[str, Any]:
    """The parameters of a GateL0RD world model with one cell."""
    (cell,) = model.core.cells
    named: dict[str, Any] = {"pre": model.pre, "init": model.init[0], "post": model.post}
    named |= {"g": cell.gate_net, "r": cell.recommendation_net, "p": cell.output_net, "o": cell.output_gate_net}
    return {name: layers_of(network) for name, network in named.items()}


def mlp(layers: Any, x: Any, last_tanh: bool) -> Any:
    for index, (weight, bias) in enumerate(layers):
        x = x @ weight + bias
        if last_tanh or index < len(layers) - 1:
            x = jnp.tanh(x)
    return x


def loss(weights: Any, observations: Any, actions: Any, feed: Any, noise: Any, config: WorldModelConfig) -> Any:
    """Mean squared error plus 0.001 times the share of open gates, straight through."""
    first = config.init_steps
    head = jnp.concatenate([actions[:first], observations[:first]], -1).transpose(1, 0, 2)
    h_0 = mlp(weights["init"], head.reshape(head.shape[0], -1), True)
    feed = feed.at[:first].set(True)

    def step(carry: Any, inputs: Any) -> Any:
        h, predicted = carry
        observation, action, feed_t, noise_t = inputs
        fed = jnp.where(feed_t[:, None], observation, predicted)
        x = mlp(weights["pre"], jnp.concatenate([action, fed], -1), True)
        xh = jnp.concatenate([x, h], -1)
        gate = jax.nn.relu(jnp.tanh(mlp(weights["g"], xh, False) + noise_t))
        h = gate * mlp(weights["r"], xh, True) + (1 - gate) * h
        xh = jnp.concatenate([x, h], -1)
        y = jnp.tanh(mlp(weights["p"], xh, False)) * jax.nn.sigmoid(mlp(weights["o"], xh, False))
        prediction = fed + config.residual_scale * mlp(weights["post"], y, False)
        return (h, prediction), (prediction, gate)

    inputs = (observations[:-1], actions[:-1], feed, noise)
    _, (predictions, gates) = jax.lax.scan(step, (h_0, observations[0]), inputs)
    opened = jnp.where(gates > 0, 1.0, 0.0)
    straight = opened + gates - jax.lax.stop_gradient(gates)
    return jnp.square(predictions - observations[1:]).mean() + 0.001 * straight.mean()


def training_step(model_config: WorldModelConfig, observations: Tensor, actions: Tensor) -> Callable[[], object]:
    """Loss, gradients, clipping and Adam, compiled as one."""
    config = TrainConfig(epochs=1)
    weights = weights_of(WorldModel(model_config))
    data = jnp.asarray(observations.numpy()), jnp.asarray(actions.numpy())
    steps, batch, hidden = len(observations) - 1, observations.shape[1], model_config.cell.hidden_size

    @jax.jit
    def update(weights: Any, means: Any, squares: Any, count: Any, key: Any) -> Any:
        key, for_feed, for_noise = jax.random.split(key, 3)
        feed = jax.random.bernoulli(for_feed, 0.5, (steps, batch))
        noise = 0.1 * jax.random.normal(for_noise, (steps, batch, hidden))
        value, gradient = jax.value_and_grad(loss)(weights, *data, feed, noise, model_config)
        leaves = jax.tree.leaves(gradient)
        norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in leaves))
        gradient = jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, config.clip_norm / (norm + 1e-6)), gradient)
        b1, b2 = config.betas
        means = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, means, gradient)
        squares = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, squares, gradient)
        rate = config.learning_rate / (1 - b1**count)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v / (1 - b2**count)) + config.epsilon), weights, means, squares
        )
        return weights, means, squares, count + 1, key, value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state: list[Any] = [weights, zeros, zeros, jnp.asarray(1.0), jax.random.key(0)]

    def run() -> None:
        *state[:], value = update(*state)
        value.block_until_ready()

    return run
