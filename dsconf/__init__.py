"""dsconf: the declarative compiler and validator for DeepSpeed's `ds_config.json`.

The public names are those in `__all__`; they are imported on first use, so that `import dsconf` costs nothing.
"""

from __future__ import annotations

# The module `typing` takes longer to import than the rest of what a command line needs first.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dsconf.api import load, validate
    from dsconf.compile import compile_config
    from dsconf.diagnostic import ConfigError, Diagnostic
    from dsconf.models.config import DeepSpeedConfig

__version__ = "0.1.0"

__all__ = ["ConfigError", "DeepSpeedConfig", "Diagnostic", "compile_config", "load", "validate"]

_HOMES = {
    "ConfigError": "dsconf.diagnostic",
    "DeepSpeedConfig": "dsconf.models.config",
    "Diagnostic": "dsconf.diagnostic",
    "compile_config": "dsconf.compile",
    "load": "dsconf.api",
    "validate": "dsconf.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dsconf' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
