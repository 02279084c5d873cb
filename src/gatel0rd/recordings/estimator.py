"""What an estimator needs of scikit-learn, for those who do not have it."""

from __future__ import annotations

import inspect
from typing import Any, Self


class BaseEstimator:
    """Parameters are the arguments of the constructor, which keeps them under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **values: Any) -> Self:
        """Change arguments of the constructor."""
        known = self.get_params()
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(
                f"Invalid parameter {', '.join(unknown)} for {type(self).__name__}; it has {', '.join(known)}"
            )
        for name, value in values.items():
            setattr(self, name, value)
        return self


class ClusterMixin:
    """Nothing more."""


class TransformerMixin:
    """Nothing more."""
