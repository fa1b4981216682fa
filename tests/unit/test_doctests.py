"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import gearshift

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(gearshift.__path__, "gearshift.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("module", MODULES)
def test_every_example_in_a_docstring_is_true(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
