"""Gearshift's functions inside Spark, in Java: Spark's decoders are too lenient, and real-time cannot run Python.

The sources in `jvm/` are compiled with the Janino in Spark's jars, once per version, into a jar in the cache. Spark
finds the functions in the catalog `gearshift`; a jar in `spark.jars` reaches the executors of any master.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from gearshift.errors import ArtifactError, TamperedArtifactError
from gearshift.spark import private
from gearshift.stack.artifacts.artifacts import file_sha256
from gearshift.stack.artifacts.java import require_java
from gearshift.storage.shared_files import exclusive, write_whole

CATALOG = {"spark.sql.catalog.gearshift": "gearshift.Functions"}
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_COMPILED_WITHIN = 120


def jar(cache: Path) -> Path:
    """The jar of the functions, compiled if it does not exist yet."""
    sources = {
        source.name: source.read_text(encoding="utf-8")
        for source in sorted(files("gearshift.spark").joinpath("jvm").iterdir(), key=lambda file: file.name)
        if source.name.endswith(".java")
    }
    digest = hashlib.sha256(json.dumps([pyspark.__version__, sources]).encode()).hexdigest()[:12]
    path = cache / "functions" / f"gearshift-{digest}.jar"
    proof = path.with_suffix(".sha256")
    if not proof.exists():
        with exclusive(path.parent / "compile.lock"):
            if not proof.exists():
                _compile(sources, path)
                write_whole(proof, file_sha256(path) + "\n")
    expected = proof.read_text(encoding="utf-8").strip()
    if not path.exists() or file_sha256(path) != expected:
        raise TamperedArtifactError(
            f"{path} is not the jar that was compiled here", hint=f"delete {path.parent} and retry"
        )
    return path


def decode(spark: SparkSession, specification: dict[str, Any]) -> Column:
    """A struct of a raw record's decoded `value`, or of `why` it cannot be decoded."""
    name = _define(spark, "decode", json.dumps(specification))
    return F.call_function(name, "value", "partition", "offset")


def texts(spark: SparkSession, type_: DataType, json_: str) -> Column:
    """The JSON in a binary column as structs, arrays and maps of texts; numbers keep all their digits."""
    return F.call_function(_define(spark, "texts", type_.json()), json_)


def whole(spark: SparkSession, plan: dict[str, Any], payload: Column) -> Column:
    """Whether a binary column is exactly one value of the Avro schema that a plan skips."""
    return F.call_function(_define(spark, "whole", json.dumps(plan)), payload)


def _define(spark: SparkSession, kind: str, specification: str) -> str:
    name = f"{kind}_{hashlib.sha256(specification.encode()).hexdigest()[:16]}"
    private.jvm(spark).gearshift.Functions.define(name, specification)
    return f"gearshift.{name}"


def _compile(sources: dict[str, str], path: Path) -> None:
    classpath = os.pathsep.join(map(str, sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))))
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name)
        written: list[str] = []
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
            written.append(file)
        # The classpath is too long for a command line: Java also reads it from the environment.
        done = subprocess.run(
            [str(require_java()), "-Xmx256m", _COMPILER, "-d", "classes", "-classpath", classpath, *written],
            cwd=folder,
            env={**os.environ, "CLASSPATH": classpath},
            capture_output=True,
            text=True,
            timeout=_COMPILED_WITHIN,
        )
        classes = sorted((folder / "classes").rglob("*.class"))
        output = (done.stdout + done.stderr).strip()
        if done.returncode or "CompileException" in output or not classes:
            raise ArtifactError(
                f"the functions for Spark cannot be compiled: {output.splitlines()[0] if output else 'no classes'}",
                hint="check that this is the PySpark version that Gearshift requires",
            )
        packed = folder / path.name
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in classes:
                archive.write(file, str(file.relative_to(folder / "classes")))
        packed.replace(path)
