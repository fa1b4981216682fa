"""The modules of the provider that need nothing but the standard library, without Airflow."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).parents[2] / "airflow" / "src" / "airflow_provider_gearshift"


def load(name: str) -> ModuleType:
    """A module of the provider, by its file."""
    spec = importlib.util.spec_from_file_location(
        f"airflow_provider_gearshift.{name}", _FOLDER / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
