"""The class data sharing archive that Spark starts from."""

from __future__ import annotations

from pathlib import Path

import pyspark

from gearshift.settings import Settings
from gearshift.stack.artifacts.class_archive import Archive


def archive(settings: Settings) -> Archive:
    """The archive for this PySpark, whether it exists or not."""
    classes = Path(pyspark.__file__).parent / "jars"
    return Archive.of(f"spark-{pyspark.__version__}", [classes], cache=settings.cache)


def quoted(options: tuple[str, ...]) -> str:
    """Java options in the form that Spark's configuration expects."""
    return " ".join(f'"{option}"' for option in options)
