"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any, get_type_hints

import gearshift as gs


def test_every_public_name_can_be_imported() -> None:
    for name in gs.__all__:
        assert getattr(gs, name) is not None, name


def test_every_type_that_an_app_returns_is_public() -> None:
    methods: list[Any] = [gs.App.topic, gs.App.table, gs.App.files, gs.App.http, gs.App.cdc]
    returned = [get_type_hints(method)["return"] for method in methods]
    parts = [hint for hint in get_type_hints(gs.Graph).values() if hint is not str]
    for kind in (*returned, *(hint.__args__[1] for hint in parts), gs.Graph):
        assert getattr(gs, kind.__name__) is kind, kind


def test_the_version_is_that_of_the_installed_package() -> None:
    assert gs.__version__ == version("gearshift")


def test_help_and_version_import_neither_spark_nor_kafka() -> None:
    code = (
        "import sys\n"
        "from gearshift.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'pyspark', 'confluent_kafka', 'pyarrow', 'duckdb', 'deltalake'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))\n"
    )
    for option, expected in (("--version", f"gearshift {version('gearshift')}\n"), ("--help", "Usage: ")):
        done = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
        )
        assert expected in done.stdout
        assert done.stdout.endswith("heavy: []\n"), done.stdout[-200:]
