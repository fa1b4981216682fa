"""An archive of Spark's classes for one Java and one PySpark: with it, the Java process starts in half the time.

`training.py` makes it. Java itself checks that an archive fits, and starts without one that does not.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from gearshift.settings import Settings
from gearshift.stack.java import require_java

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # an archive that does not fit is no news for a log


def options(settings: Settings) -> str:
    """What Java is told to start from the archive, if there is one."""
    place = archive(settings)
    return f'"-XX:SharedArchiveFile={place}" {QUIET}' if place.exists() else ""


def archive(settings: Settings) -> Path:
    """Where the archive for this Java and this PySpark is, or would be."""
    java, classes = require_java().resolve(), Path(pyspark.__file__).parent / "jars"
    words = f"{java} {java.stat().st_mtime_ns} {classes} {classes.stat().st_mtime_ns}"
    digest = hashlib.sha256(words.encode()).hexdigest()[:12]
    return settings.cache / "startup" / f"spark-{pyspark.__version__}-{digest}.jsa"
