"""Turns the lines that `gearshift topic produce` reads into records."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, cast

from gearshift.schemas.encoding import Misfit, is_a
from gearshift.sources.strict_json import read_json
from gearshift.topics.encoders import Encoders, Header, Record


class Lines:
    """Turns lines into records of a topic; Misfit names the field that does not fit."""

    def __init__(
        self,
        encoders: Encoders,
        *,
        key: str | None = None,
        key_field: str | None = None,
        headers: Sequence[Header] = (),
        records: bool = False,
    ) -> None:
        self._encoders = encoders
        self._key_encoder = encoders.key
        self._raw = encoders.value is None
        self._key = key
        self._key_field = key_field
        self._headers = list(headers)
        self._records = records

    def record(self, line: bytes) -> Record:
        """The record of a line."""
        if self._records:
            return self._whole(read_json(line))
        if self._raw and self._key_field is None:
            return Record(line, self._given_key(), self._headers)
        datum = read_json(line)
        return Record(
            line if self._raw else self._encoders.encoded(datum), self._key_of(datum), self._headers
        )

    def _key_of(self, datum: Any) -> bytes | None:
        if self._key_field is None:
            return self._given_key()
        return self._encoders.key_of(datum, self._key_field)

    def _given_key(self) -> bytes | None:
        if self._key is None:
            return None
        if self._key_encoder is None:
            return self._key.encode("utf-8", "surrogateescape")
        try:
            return self._key_encoder.encode(read_json(self._key))
        except Misfit as as_json:
            try:
                return self._key_encoder.encode(self._key)  # text without quotes, for a key schema of string
            except Misfit:
                raise Misfit(f"the key does not fit its schema: {as_json}") from None

    def _whole(self, datum: Any) -> Record:
        if not isinstance(datum, dict):
            raise is_a(datum, "an object as consume -o json prints it")
        given = cast("dict[str, Any]", datum)
        if "value" not in given:
            raise Misfit("is missing", ("value",))
        how = given.get("format", None if given["value"] is None else "json")
        if given.get("error") is not None and not self._raw:
            raise Misfit(f"could not be decoded: {given['error']}; send its bytes with --raw", ("value",))
        key_how = given.get("key_format", None if given.get("key") is None else "text")
        headers = _given_headers(given.get("headers") or [])
        return Record(
            None if how is None else self._value(given["value"], str(how)),
            None if key_how is None else self._whole_key(given.get("key"), str(key_how)),
            [*headers, *self._headers],
        )

    def _value(self, datum: Any, how: str) -> bytes:
        if how in ("avro", "json"):
            return self._encoders.encoded(datum)
        if not self._raw:
            raise Misfit(f"is {how}, without a schema; send it with --raw", ("value",))
        return _octets(datum, how, "value")

    def _whole_key(self, datum: Any, how: str) -> bytes:
        if how in ("text", "binary"):
            return _octets(datum, how, "key")
        return self._encoders.encoded_key(datum)


def _octets(datum: Any, how: str, name: str) -> bytes:
    if not isinstance(datum, str):
        raise Misfit(f"is {type(datum).__name__}, not text", (name,))
    if how == "text":
        return datum.encode("utf-8", "replace")
    try:
        return base64.b64decode(datum, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("is not base64", (name,)) from None


def _given_headers(given: Any) -> list[Header]:
    found: list[Header] = []
    for each in cast("list[Any]", given) if isinstance(given, list) else [None]:
        if not isinstance(each, dict) or not isinstance(cast("dict[str, Any]", each).get("name"), str):
            raise Misfit('is not a list of {"name": …, "value": …}', ("headers",))
        entry = cast("dict[str, Any]", each)
        content, how = (entry["base64"], "binary") if "base64" in entry else (entry.get("value"), "text")
        found.append((entry["name"], None if content is None else _octets(content, how, "headers")))
    return found
