"""The archive of classes that Spark starts from."""

from __future__ import annotations

from pathlib import Path

import pyspark

from gearshift.settings import Settings
from gearshift.stack.startup import Archive


def archive(settings: Settings) -> Archive:
    """Where the archive for this PySpark is, or would be."""
    classes = Path(pyspark.__file__).parent / "jars"
    return Archive.of(f"spark-{pyspark.__version__}", [classes], cache=settings.cache)


def quoted(options: tuple[str, ...]) -> str:
    """Java's options as Spark's configuration takes them."""
    return " ".join(f'"{option}"' for option in options)
