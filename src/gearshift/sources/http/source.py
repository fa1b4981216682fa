"""Ingests records over HTTP: POST /topics/NAME writes them to a topic and responds when they are committed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import ssl
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from email.message import Message
from typing import TYPE_CHECKING, Any

from gearshift.errors import GearshiftError, PortInUseError, SettingsError
from gearshift.schemas import Registry
from gearshift.sources.http import headers as checks
from gearshift.sources.http.bodies import JSON, BodyParser, Refusal
from gearshift.sources.http.server import Listener, serve_with, tls_context
from gearshift.sources.http.writer import Request, RequestWriter, Written, unavailable
from gearshift.sources.record_encoder import RecordEncoder
from gearshift.topics import Pressure

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

    from gearshift.connection import Connection
    from gearshift.definitions import HttpSource, Topic

log = logging.getLogger(__name__)

BODY_TIMEOUT = timedelta(seconds=30)
_MAX_INCOMPLETE = 256 << 20  # bytes of bodies that are still arriving
_PARSER_THREADS = 4
_PARSED_INLINE = 4 << 10  # bytes; a body up to this size is parsed faster than it is handed to a thread
_KAFKA_TIMEOUT = timedelta(seconds=60)
_DRAIN_TIMEOUT = 2.0


class Http:
    """Serves one port until it is closed; requests in flight are still answered."""

    def __init__(
        self, source: HttpSource, connection: Connection, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.source = source
        self.responses: Counter[int] = Counter()
        self._token = self._read_token(environ)
        self._connection = connection
        self._parsers: dict[str, BodyParser] = {}
        self._arriving: dict[asyncio.Timeout, int] = {}
        """The deadline of each arriving body, oldest first, and its bytes so far."""
        self._pressure = Pressure(connection)
        self._writer = RequestWriter(connection, source.marks)
        # Parsed JSON takes many times its size in memory, and more threads would not parse it faster.
        self._threads = ThreadPoolExecutor(_PARSER_THREADS, thread_name_prefix=f"http {source.name} body")
        tls = self._tls()
        try:
            self._listener = Listener(source.host, source.port)
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on port {source.port} of http {source.name}: {error.strerror}",
                hint="choose another port",
                file=source.defined_at.file,
                line=source.defined_at.line,
            ) from None
        self.port = int(self._listener.getsockname()[1])
        self._server = serve_with(self._respond, self._listener, tls)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listener],), name=f"http {source.name}", daemon=True
        )

    def open(self) -> None:
        """Start serving."""
        self._writer.open()
        self._listener.listen()
        self._thread.start()

    def close(self) -> None:
        """Stop accepting requests, answer those in flight, then stop."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._writer.close()
        self._threads.shutdown()
        self._pressure.close()

    @property
    def running(self) -> bool:
        """Whether it is serving."""
        return self._thread.is_alive()

    @property
    def connections(self) -> set[Any]:
        """The open connections."""
        return set(self._server.server_state.connections)

    def status(self) -> dict[str, Any]:
        """Its status, as plain data."""
        scheme = "http" if self.source.certificate is None else "https"
        return {
            "name": self.source.name,
            "kind": "http",
            "at": f"{scheme}://{self.source.host}:{self.port}",
            "topic": ", ".join(self.source.topics),
            "sent": self._writer.sent,
            "failed": 0,
            "requests": sum(self.responses.values()),
            "refused": sum(count for status, count in self.responses.items() if status != 200),
            "running": self.running,
            "error": self._writer.error,
        }

    async def _respond(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """The ASGI application."""
        response: Written | Refusal
        incoming = _Incoming(receive)
        try:
            response = await self._handle(scope, incoming)
        except Refusal as refusal:
            response = refusal
        except _DisconnectedError:
            return
        except Exception:
            log.exception("http %s raised", self.source.name)
            response = Refusal(500, "internal error", hint="see the log of the app")
        status = response.status if isinstance(response, Refusal) else 200
        self.responses[status] += 1
        text = json.dumps(response.as_json()).encode() + b"\n"
        named = {"content-type": JSON, "content-length": str(len(text))}
        if isinstance(response, Refusal):
            named |= response.headers
        if {b"transfer-encoding", b"content-length"} <= {name for name, _ in scope["headers"]}:
            named["connection"] = "close"  # a proxy in front may disagree about where this request ends
        headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        unread = incoming.more
        await send({"type": "http.response.body", "body": text, "more_body": unread})
        if unread:
            await incoming.drain()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _handle(self, scope: HTTPScope, incoming: _Incoming) -> Written:
        """Check a request, cheapest checks first, and write its records."""
        headers = Message()
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        checks.authenticate(headers, self._token)
        topic = checks.topic_of(scope["path"], self.source.topics)
        if scope["method"] != "POST":
            raise Refusal(405, "method not allowed", hint="send records with POST: curl --json '{…}' …")
        lines, key = checks.is_lines(headers), checks.idempotency_key(headers)
        length = checks.length_of(headers)
        if topic.max_lag is not None:
            await self._in_thread(self._refuse_under_pressure, topic)
        body = await self._read(incoming, length)
        result: Future[Written] | None
        if len(body) <= _PARSED_INLINE and topic.name in self._parsers:
            result = self._submit(topic, body, lines, key)
        else:
            result = await self._in_thread(self._submit, topic, body, lines, key)
        if result is None:
            return Written(0)
        try:
            # Shielded, since the writer thread still sets the result of a request that timed out.
            return await asyncio.wait_for(
                asyncio.shield(asyncio.wrap_future(result)), _KAFKA_TIMEOUT.total_seconds()
            )
        except TimeoutError:
            raise unavailable(
                "Kafka did not confirm the records in time; they may have been written"
            ) from None

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def _read(self, incoming: _Incoming, length: int) -> bytes:
        """Read the body; when too many bytes are arriving, the oldest incomplete body times out."""
        body = bytearray()
        deadline = asyncio.timeout(BODY_TIMEOUT.total_seconds())
        try:
            async with deadline:
                while incoming.more:
                    body += await incoming.receive()
                    self._arriving[deadline] = len(body)
                    if sum(self._arriving.values()) > _MAX_INCOMPLETE:
                        next(iter(self._arriving)).reschedule(asyncio.get_running_loop().time())
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive in time: {len(body)} of {length} bytes") from None
        finally:
            self._arriving.pop(deadline, None)
        return bytes(body)

    def _submit(self, topic: Topic, body: bytes, lines: bool, key: str | None) -> Future[Written] | None:
        """Parse a body and submit its records; Refusal if it is invalid."""
        records = self._parser(topic).records(body, lines=lines)
        return self._writer.submit(Request.of(topic.name, records, key, body)) if records else None

    def _refuse_under_pressure(self, topic: Topic) -> None:
        """Reject requests while the topic's slowest reader exceeds its maximum lag."""
        if self._pressure.presses(topic):
            group, behind = self._pressure.slowest(topic.name) or ("?", 0)
            raise Refusal(
                429,
                f"group {group} is {behind} records behind, more than max_lag={topic.max_lag} of topic {topic.name}",
                hint="send it again later",
                retry_after=1,
            )

    def _parser(self, topic: Topic) -> BodyParser:
        found = self._parsers.get(topic.name)
        if found is None:
            try:
                with Registry(self._connection) as registry:
                    found = self._parsers[topic.name] = BodyParser(RecordEncoder(topic, registry))
            except GearshiftError as error:
                raise Refusal(503, str(error), retry_after=5) from None
        return found

    def _tls(self) -> ssl.SSLContext | None:
        certificate, key = self.source.certificate, self.source.key
        if certificate is None:
            return None
        try:
            return tls_context(certificate, key)
        except OSError as error:
            raise SettingsError(
                f"cannot use the certificate {certificate} of http {self.source.name} or its key: "
                f"{error.strerror or error}",
                hint="name a PEM file with the certificate and one with its unencrypted key",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            ) from None

    def _read_token(self, environ: Mapping[str, str]) -> str | None:
        variable = self.source.token_variable
        if variable is None:
            return None
        if not environ.get(variable):
            raise SettingsError(
                f"http {self.source.name} reads its token from {variable}, which is not set",
                hint=f"set it: export {variable}=…",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            )
        return environ[variable]


class _DisconnectedError(Exception):
    """The client disconnected."""


class _Incoming:
    """The body of a request as it arrives."""

    def __init__(self, receive: ASGIReceiveCallable) -> None:
        self.more = True
        self._receive = receive

    async def receive(self) -> bytes:
        """The next bytes."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise _DisconnectedError
        self.more = message["more_body"]
        return message["body"]

    async def drain(self) -> None:
        """Read the rest of the body: closing the connection while the client sends would lose our response."""
        with contextlib.suppress(TimeoutError, _DisconnectedError):
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                while self.more:
                    await self.receive()
