"""Parses request bodies into records of a topic: a JSON object, an array of objects, or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import EncodeError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json.decoding import JSON_CLOSED, decoder
from gearshift.schemas.shapes import describe
from gearshift.sources.strict_json import read_json

if TYPE_CHECKING:
    from gearshift.sources.record_encoder import RecordEncoder

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")

Record = tuple[bytes | None, bytes]


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818  (a response to a client, not an error of ours)
    """The response to a request that is rejected."""

    status: int
    message: str
    hint: str | None = None
    field: str | None = None
    index: int | None = None
    retry_after: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The response body."""
        body = {"error": self.message, "hint": self.hint, "field": self.field, "index": self.index}
        return {name: value for name, value in body.items() if value is not None}

    @property
    def headers(self) -> dict[str, str]:
        """The response headers."""
        headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST"}}.get(self.status, {})
        return headers if self.retry_after is None else {**headers, "Retry-After": str(self.retry_after)}


class BodyParser:
    """Parses the request bodies of one topic."""

    def __init__(self, encoder: RecordEncoder) -> None:
        self.topic = encoder.topic
        self._encoder = encoder
        self._to_value = decoder(describe(encoder.topic.value), JSON_CLOSED)

    def records(self, body: bytes, *, lines: bool) -> list[Record]:
        """All records of a body; Refusal for the first that does not fit, and then none is written."""
        if lines:
            return [self._record(*each) for each in enumerate(_lines(body))]
        try:
            found = read_json(body)
        except Misfit as misfit:
            raise _refused(misfit, None) from None
        if isinstance(found, list):
            return [self._record(index, datum) for index, datum in enumerate(cast("list[Any]", found))]
        return [self._record(None, found)]

    def _record(self, index: int | None, datum: Any) -> Record:
        try:
            return self._encoder.record(self._to_value(datum))
        except Misfit as misfit:
            raise _refused(misfit, index) from None
        except EncodeError as error:
            status = 413 if "bytes" in error.what else 400
            raise Refusal(status, error.what, hint=error.hint, index=index) from None


def _lines(body: bytes) -> Iterator[Any]:
    index = 0
    for line in body.split(b"\n"):
        if not line.strip():
            continue
        try:
            yield read_json(line)
        except Misfit as misfit:
            raise _refused(misfit, index) from None
        index += 1


def _refused(misfit: Misfit, index: int | None) -> Refusal:
    return Refusal(400, str(misfit), field=".".join(misfit.path) or None, index=index)
