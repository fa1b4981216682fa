"""HTTP ingest: POST /topics/NAME puts records on a topic, and answers when they are there."""

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
from gearshift.sources import headers as checks
from gearshift.sources.bodies import JSON, Body, Refusal
from gearshift.sources.encoded import Encoded
from gearshift.sources.requests import Request, Requests, Written, unavailable
from gearshift.sources.server import Listener, serve_with, tls_context
from gearshift.topics import Pressure

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

    from gearshift.connection import Connection
    from gearshift.definitions import HttpSource, Topic

log = logging.getLogger(__name__)

BODY_WITHIN = timedelta(seconds=30)
_BODIES_AT_ONCE = 256 << 20  # bytes of bodies that are not all there yet
_MOST_READING = 4
_READ_AT_ONCE = 4 << 10  # bytes of a body that is read sooner than it is handed to a thread
_KAFKA_WITHIN = timedelta(seconds=60)
_SWALLOWED_WITHIN = 2.0


class Http:
    """Serves one port until it is closed; then it answers what it has taken, and ends."""

    def __init__(
        self, source: HttpSource, connection: Connection, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.source = source
        self.answers: Counter[int] = Counter()
        self._token = self._read_token(environ)
        self._connection = connection
        self._bodies: dict[str, Body] = {}
        self._arriving: dict[asyncio.Timeout, int] = {}
        """The bodies that are being read: their deadlines, the oldest first, and their bytes so far."""
        self._pressure = Pressure(connection)
        self._requests = Requests(connection, source.marks)
        # JSON takes many times its size in memory, and more threads would not read it faster.
        self._readers = ThreadPoolExecutor(_MOST_READING, thread_name_prefix=f"http {source.name} body")
        tls = self._tls()
        try:
            self._listener = Listener(source.host, source.port)
        except OSError as error:
            raise PortInUseError(
                f"port {source.port} of http {source.name}: {error.strerror}",
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
        """Begin to answer."""
        self._requests.open()
        self._listener.listen()
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, answer those under way, then end."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._requests.close()
        self._readers.shutdown()
        self._pressure.close()

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    @property
    def connections(self) -> set[Any]:
        """The connections that are open now."""
        return set(self._server.server_state.connections)

    def status(self) -> dict[str, Any]:
        """How it is, as plain data."""
        scheme = "http" if self.source.certificate is None else "https"
        return {
            "name": self.source.name,
            "kind": "http",
            "at": f"{scheme}://{self.source.host}:{self.port}",
            "topic": ", ".join(self.source.topics),
            "sent": self._requests.sent,
            "failed": 0,
            "requests": sum(self.answers.values()),
            "refused": sum(count for status, count in self.answers.items() if status != 200),
            "running": self.running,
            "error": self._requests.error,
        }

    async def _respond(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """The ASGI application."""
        said: Written | Refusal
        incoming = _Incoming(receive)
        try:
            said = await self._written(scope, incoming)
        except Refusal as refusal:
            said = refusal
        except _GoneError:
            return
        except Exception:
            log.exception("http %s raised", self.source.name)
            said = Refusal(500, "internal error", hint="see the log of the app")
        status = said.status if isinstance(said, Refusal) else 200
        self.answers[status] += 1
        text = json.dumps(said.as_json()).encode() + b"\n"
        named = {"content-type": JSON, "content-length": str(len(text))}
        if isinstance(said, Refusal):
            named |= said.headers
        if {b"transfer-encoding", b"content-length"} <= {name for name, _ in scope["headers"]}:
            named["connection"] = "close"  # a proxy before us may see another end of this request
        headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        unread = incoming.more
        await send({"type": "http.response.body", "body": text, "more_body": unread})
        if unread:
            await incoming.swallow()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _written(self, scope: HTTPScope, incoming: _Incoming) -> Written:
        """Check a request from what costs least to what costs most, and write its records."""
        headers = Message()
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        checks.let_in(headers, self._token)
        topic = checks.topic_of(scope["path"], self.source.topics)
        if scope["method"] != "POST":
            raise Refusal(405, "records are sent with POST", hint="curl --json '{…}' …")
        lines, key = checks.is_lines(headers), checks.idempotency_key(headers)
        length = checks.length_of(headers)
        if topic.max_lag is not None:
            await self._in_thread(self._refuse_under_pressure, topic)
        body = await self._read(incoming, length)
        answer: Future[Written] | None
        if len(body) <= _READ_AT_ONCE and topic.name in self._bodies:
            answer = self._submit(topic, body, lines, key)
        else:
            answer = await self._in_thread(self._submit, topic, body, lines, key)
        if answer is None:
            return Written(0)
        try:
            # Shielded, since the thread that writes goes on to answer a request that nobody waits for.
            return await asyncio.wait_for(
                asyncio.shield(asyncio.wrap_future(answer)), _KAFKA_WITHIN.total_seconds()
            )
        except TimeoutError:
            raise unavailable("Kafka takes too long; whether the records were written is not known") from None

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *arguments)

    async def _read(self, incoming: _Incoming, length: int) -> bytes:
        """The body, if it comes in time; the one that takes longest gives way when there are too many."""
        body = bytearray()
        deadline = asyncio.timeout(BODY_WITHIN.total_seconds())
        try:
            async with deadline:
                while incoming.more:
                    body += await incoming.receive()
                    self._arriving[deadline] = len(body)
                    if sum(self._arriving.values()) > _BODIES_AT_ONCE:
                        next(iter(self._arriving)).reschedule(asyncio.get_running_loop().time())
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive in time: {len(body)} of {length} bytes") from None
        finally:
            self._arriving.pop(deadline, None)
        return bytes(body)

    def _submit(self, topic: Topic, body: bytes, lines: bool, key: str | None) -> Future[Written] | None:
        """Check a body and hand over its records; Refusal says why not."""
        records = self._body(topic).records(body, lines=lines)
        return self._requests.submit(Request.of(topic.name, records, key, body)) if records else None

    def _refuse_under_pressure(self, topic: Topic) -> None:
        """While a reader of the topic is further behind than it may be, senders have to wait."""
        if self._pressure.presses(topic):
            group, behind = self._pressure.slowest(topic.name) or ("?", 0)
            raise Refusal(
                429,
                f"group {group} is {behind} records behind, more than the {topic.max_lag} of topic {topic.name}",
                hint="send it again later",
                retry_after=1,
            )

    def _body(self, topic: Topic) -> Body:
        found = self._bodies.get(topic.name)
        if found is None:
            try:
                with Registry(self._connection) as registry:
                    found = self._bodies[topic.name] = Body(Encoded(topic, registry))
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
                f"the certificate {certificate} of http {self.source.name}, or its key, cannot be used: "
                f"{error.strerror or error}",
                hint="name a PEM file with the certificate and one with its key, without a password",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            ) from None

    def _read_token(self, environ: Mapping[str, str]) -> str | None:
        variable = self.source.token_variable
        if variable is None:
            return None
        if not environ.get(variable):
            raise SettingsError(
                f"http {self.source.name} takes its token from {variable}, which is not set",
                hint=f"export {variable}=…",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            )
        return environ[variable]


class _GoneError(Exception):
    """The client hung up."""


class _Incoming:
    """The body of a request as it arrives."""

    def __init__(self, receive: ASGIReceiveCallable) -> None:
        self.more = True
        self._receive = receive

    async def receive(self) -> bytes:
        """The next bytes."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise _GoneError
        self.more = message["more_body"]
        return message["body"]

    async def swallow(self) -> None:
        """Let a client that is still sending finish: a connection closed under it would take our answer along."""
        with contextlib.suppress(TimeoutError, _GoneError):
            async with asyncio.timeout(_SWALLOWED_WITHIN):
                while self.more:
                    await self.receive()
