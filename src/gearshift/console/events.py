"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""What the API's document says of a route that answers with events."""


def event(name: str, data: str) -> str:
    r"""One event; `data` is JSON on one line.

    >>> event("status", '{"at": 1}')
    'event: status\ndata: {"at": 1}\n\n'
    """
    return f"event: {name}\ndata: {data}\n\n"


class _Closing(StreamingResponse):
    """A response that closes its iterator in the end, also when the client disconnects while an event is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            close: Any = getattr(self.body_iterator, "aclose", None)
            if close is not None:
                with anyio.CancelScope(shield=True):
                    await close()


def stream(events: AsyncIterator[str] | Iterator[str]) -> StreamingResponse:
    """The response with these events."""
    return _Closing(events, media_type="text/event-stream")
