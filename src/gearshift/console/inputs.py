"""What requests may contain: names, numbers and texts within the limits of Kafka and of Unicode."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, Field, StringConstraints

from gearshift.errors import SettingsError

LARGEST_PARTITION = 2**31 - 1
LARGEST_OFFSET = 2**63 - 1


def _is_unicode(text: str) -> str:
    """JSON can escape half of a surrogate pair, which no encoding takes."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("is not valid Unicode")
    return text


Text = Annotated[str, StringConstraints(max_length=10_000), AfterValidator(_is_unicode)]
TOPIC = r"^[a-zA-Z0-9._-]+$"
TopicPath = Annotated[str, Path(pattern=TOPIC, max_length=249)]
TopicText = Annotated[str, StringConstraints(pattern=TOPIC, max_length=249)]
NamePath = Annotated[str, Path(min_length=1, max_length=1000)]
"""The name of a group or a subject, which may contain any character."""
PartitionQuery = Annotated[int | None, Query(ge=0, le=LARGEST_PARTITION)]
PartitionNumber = Annotated[int | None, Field(ge=0, le=LARGEST_PARTITION)]
KeyQuery = Annotated[str | None, Query(max_length=10_000, description="the key as it is shown")]
FieldQuery = Annotated[
    str | None, Query(min_length=1, max_length=1000, description="a path within the value, such as a.b.0")
]
EqualsQuery = Annotated[str | None, Query(max_length=10_000, description="the text form of that field")]


def require_json(value: Any, name: str) -> None:
    """Raise SettingsError for what Python reads as JSON, but others do not."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise SettingsError(f"{name}: a text is not valid Unicode") from None
    except ValueError:
        raise SettingsError(f"{name}: a number is not finite") from None
    except RecursionError:
        raise SettingsError(f"{name}: is nested too deeply") from None
