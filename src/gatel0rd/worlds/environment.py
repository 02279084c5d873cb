"""What our environments share: they draw themselves, to an array or to a window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from gatel0rd.worlds.drawing import Array, Picture


class DrawnEnv(gymnasium.Env[Array, Array]):
    """An environment whose ``_draw`` makes a picture of its present state.

    Args:
        render_mode: ``rgb_array`` or ``human`` (a window, with pygame).
        render_size: height of the picture in pixels.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None, render_size: int) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode is {render_mode!r}; expected human or rgb_array")
        self.render_mode, self.render_size = render_mode, render_size
        self._window: Any = None

    @abstractmethod
    def _draw(self) -> Picture:
        """The scene, [render_size, ·, 3]."""

    def render(self) -> Any:
        """The scene as an RGB array with ``render_mode="rgb_array"``; a window shows itself with ``human``."""
        return self._draw() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        if self._window is not None:
            import pygame

            pygame.display.quit()
            self._window = None

    def _show(self) -> None:
        """Bring the window up to date; called after every reset and step."""
        if self.render_mode != "human":
            return
        import pygame

        picture = self._draw()
        if self._window is None:
            pygame.display.init()
            self._window = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
            pygame.display.set_caption(type(self).__name__)
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._window.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))  # [H, W, 3] -> [W, H, 3]
        pygame.display.flip()
        self._clock.tick(self.metadata["render_fps"])


def check_action(action: Any, size: int) -> Array:
    """The action as an array in [-1, 1]; another size, NaN and infinity are errors."""
    array = np.asarray(action, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        words = {0: "no", 2: "two", 3: "three", 4: "four"}.get(size, str(size))
        raise ValueError(f"action is {array}; expected {words} finite numbers in [-1, 1]")
    return np.clip(array, -1, 1)


def check_options(options: dict[str, Any] | None, known: Sequence[str]) -> dict[str, Any]:
    """The options of a reset; unknown ones are an error."""
    options = options or {}
    unknown = set(options) - set(known)
    if unknown:
        raise ValueError(f"there is no option {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return options
