"""Value types and their schemas (Avro, JSON Schema, Spark), encoding and decoding, and the registry client.

Nothing here imports Spark, nor a Kafka client before a registry is opened.
"""

from __future__ import annotations

from typing import Any

from gearshift.definitions import Topic
from gearshift.schemas.decoder import Decoder
from gearshift.schemas.payloads import Codec, codec, decode, encode
from gearshift.schemas.registry_client import Registry, Schema
from gearshift.schemas.shapes import Alias, DecimalOf, TimeOf, describe
from gearshift.schemas.spark import spark_struct
from gearshift.schemas.wire import pack, unpack

__all__ = [
    "Alias",
    "Codec",
    "DecimalOf",
    "Decoder",
    "Registry",
    "Schema",
    "TimeOf",
    "avro_schema",
    "codec",
    "decode",
    "describe",
    "encode",
    "json_schema",
    "pack",
    "schema_text",
    "spark_schema",
    "unpack",
]


def schema_text(topic: Topic) -> str:
    """The schema of a topic's values, as registered."""
    return codec(topic.value, topic.format).schema_text


def spark_schema(value_type: type[Any]) -> dict[str, Any]:
    """The Spark schema of a value type, for `StructType.fromJson`."""
    return spark_struct(describe(value_type))


def avro_schema(value_type: type[Any]) -> dict[str, Any]:
    """The Avro schema of a value type."""
    return codec(value_type, "avro").schema


def json_schema(value_type: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a value type."""
    return codec(value_type, "json").schema
