"""One Spark session for all tests of what records mean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark(java: object) -> Iterator[SparkSession]:
    session = SparkSession.builder.master("local[2]").appName("records").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
