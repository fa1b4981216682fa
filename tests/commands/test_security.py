"""Every socket of a running app listens on loopback and requires credentials, and no secret of a setting or of the stack
is in any output, log, file that others can read, command line or response."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError

from gearshift import stack as local
from gearshift.console.runner_info import RunnerInfo
from gearshift.settings import load
from gearshift.stack.services import cassandra_cql as cql
from gearshift.stack.services import kafka_metadata as metadata
from gearshift.stack.services.accounts import Account, account_of
from gearshift.stack.services.kafka_login import Login
from gearshift.stack.services.postgres import passwords
from gearshift.stack.services.tokens import read_token
from tests.support import closed_port, eventually

GEARSHIFT = Path(sys.executable).with_name("gearshift")
SILENT = logging.getLogger("tests.security")
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
APP = """
from dataclasses import dataclass

import gearshift as gs
from gearshift.destinations import Email, EmailMessage, Postgres, Sms, SmsMessage, Webhook


@dataclass
class Word:
    text: str


app = gs.App("locks")
words = app.topic("words", value=Word, key="text")
copies = app.topic("copies", value=Word, key="text")
kept = app.table("kept")
app.http(topics=[words], port={port}, token="${{env:INGEST_TOKEN}}")


@app.pipeline(source=words, to=copies, gear="real-time")
def copy(words):
    return words


@app.pipeline(source=words, to=kept, gear="near-real-time")
def keep(words):
    return words


@app.delivery(copies, to=Webhook("http://127.0.0.1:{closed}/{canary}", secret="{canary}"))
def told(record):
    return {{"text": record.value.text}}


@app.delivery(copies, to=Sms(account="AC1", token="{canary}", sender="+15005550006", url="http://127.0.0.1:{closed}"))
def texted(record):
    return SmsMessage("+31612345678", record.value.text)


mail = Email("127.0.0.1", {closed}, "a@example.org", user="me", password="{canary}", tls="none")


@app.delivery(copies, to=mail)
def mailed(record):
    return EmailMessage("b@example.org", record.value.text, "arrived")


@app.delivery(copies, to=Postgres(table="words", dsn="postgresql://me:{canary}@127.0.0.1:{closed}/words"))
def stored(record):
    return {{"text": record.value.text}}


@app.delivery(copies, to=Postgres(table="words", dsn="host=127.0.0.1 port={closed} user=me password='{canary}'"))
def stored_too(record):
    return {{"text": record.value.text}}
"""


@dataclass(frozen=True)
class Socket:
    """A port on which a process of a tree listens."""

    pid: int
    address: str
    port: int
    command: str


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def listening(pids: list[int]) -> list[Socket]:
    """Every TCP port that these processes listen on, with the address as the kernel writes it."""
    bound: dict[str, tuple[str, int]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, _, port = fields[1].partition(":")
                bound[fields[9]] = (address, int(port, 16))
    found: dict[int, Socket] = {}
    for pid in pids:
        try:
            links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        for link in map(str, links):
            inode = link.removeprefix("socket:[").removesuffix("]")
            if link.startswith("socket:[") and inode in bound:
                address, port = bound[inode]
                found.setdefault(port, Socket(pid, address, port, command_of(pid)))
    return list(found.values())


def asked(port: int, method: str, path: str, headers: dict[str, str] | None = None, body: str = "") -> int:
    """The status that an HTTP server answers with."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=body or None, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


def said(port: int, words: bytes, *, wrap: Callable[[socket.socket], socket.socket] | None = None) -> bytes:
    """What a server sends back before it closes the connection, or within two seconds."""
    answer = b""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=2) as plain,
            wrap(plain) if wrap else plain as connection,
        ):
            connection.sendall(words)
            while part := connection.recv(65536):
                answer += part
    except (TimeoutError, OSError):
        pass
    return answer


def spark_answers(java: Any, port: int) -> bool:
    """Whether a Spark without the secret reaches the driver behind this port, as an executor would."""
    spark = java.org.apache.spark
    conf = spark.SparkConf(False).set("spark.rpc.numRetries", "1").set("spark.network.timeout", "5s")
    default = spark.SecurityManager
    guard = spark.SecurityManager(
        conf,
        getattr(default, "$lessinit$greater$default$2")(),
        getattr(default, "$lessinit$greater$default$3")(),
    )
    stranger = spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, guard, True)
    try:
        stranger.setupEndpointRef(spark.rpc.RpcAddress("127.0.0.1", port), "HeartbeatReceiver")
    except Py4JJavaError:
        return False
    finally:
        stranger.shutdown()
    return True


@dataclass(frozen=True)
class Running:
    """An app with all services that runs in a folder, and the canary in its settings."""

    folder: Path
    pid: int
    canary: str
    ingest: int

    @property
    def home(self) -> Path:
        return self.folder / ".gearshift"

    @property
    def note(self) -> RunnerInfo:
        found = RunnerInfo.read(self.home)
        assert found is not None
        return found

    def secrets(self) -> dict[str, str]:
        """Every credential of this app."""
        place = self.home / "stack"
        return {
            "canary": self.canary,
            "kafka": account_of(place / "kafka").password,
            "connect": account_of(place / "connect").password,
            "cassandra": account_of(place / "cassandra").password,
            "postgres": passwords(place / "postgres").read_text().strip().rpartition(":")[2],
            "registry": read_token(place / "registry"),
            "control": self.note.token,
        }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("locks")
    canary, ingest = f"canary{os.urandom(8).hex()}", closed_port()
    (folder / "app.py").write_text(APP.format(port=ingest, closed=closed_port(), canary=canary))
    (folder / "gearshift.toml").write_text(
        f'services = ["cassandra", "postgres", "connect"]\n'
        f'[spark]\n"spark.hadoop.fs.s3a.secret.key" = "{canary}"\n'
        f'[kafka]\n"sasl.password" = "{canary}"\n"ssl.key.password" = "{canary}"\n'
        f'[registry]\n"basic.auth.user.info" = "me:{canary}"\n'
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    with (folder / "said").open("wb") as output:
        process = subprocess.Popen(
            [GEARSHIFT, "run", "app.py"],
            cwd=folder,
            env={**environ, "INGEST_TOKEN": canary},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    found = Running(folder, process.pid, canary, ingest)

    refused = ("told", "texted", "mailed", "stored", "stored_too")

    def works() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        try:
            if (
                RunnerInfo.read(found.home) is None
                or asked(ingest, "POST", "/topics/words", sent, record) != 200
            ):
                return False
            status = answer(found, "/api/status")
        except OSError:
            return False  # not yet
        # Each delivery has failed at the closed port, and logged an error in which a secret might appear.
        met = {each["name"] for each in status["deliveries"] if each["error"] or each["retries"]}
        return met >= {*refused} and all(
            each["state"] == "running" and each["records"] for each in status["pipelines"]
        )

    sent = {"Authorization": f"Bearer {canary}", "Content-Type": "application/json"}
    record = '{"text": "a"}'
    try:
        eventually(works, every=0.5)
        yield found
    finally:
        process.terminate()
        process.wait(120)


def answer(running: Running, path: str) -> dict[str, Any]:
    note = running.note
    connection = http.client.HTTPConnection("127.0.0.1", note.port, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {note.token}"})
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def locks(running: Running, java: Any) -> dict[str, Callable[[int], bool]]:
    """Whether a port, identified by its process's command line, rejects a client without credentials."""
    stranger = Account("gearshift", "wrong")
    request = struct.pack(">hhih", 3, 4, 1, 1) + b"x" + struct.pack(">i?", 0, False)
    anonymous = struct.pack(">i", len(request)) + request
    evil = {"Host": "evil.example"}
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE

    def kafka(port: int) -> bool:
        return (
            said(port, anonymous) == b""
            and metadata.request_metadata("127.0.0.1", port, Login(stranger)) is None
        )

    def registry(port: int) -> bool:
        subjects = "/subjects"
        asks = [("GET", subjects), ("DELETE", f"{subjects}/words-value"), ("POST", f"{subjects}/x/versions")]
        asks += [("GET", "/"), ("PUT", "/config"), ("GET", "/nothing")]
        wrong = {"Authorization": "Bearer " + read_token(running.home / "stack/registry")[:-4] + "AAAA"}
        forms: list[dict[str, str]] = [{}, evil, wrong]
        as_json = {"Content-Type": "application/json"}
        return {asked(port, *ask, {**form, **as_json}, "{}") for ask in asks for form in forms} == {401}

    def connect(port: int) -> bool:
        asks = [
            ("GET", "/"),
            ("GET", "/connectors"),
            ("PUT", "/connector-plugins/PostgresConnector/config/validate"),
        ]
        forms: list[dict[str, str]] = [{}, evil, {"Authorization": "Basic Z2VhcnNoaWZ0Ondyb25n"}]
        as_json = {"Content-Type": "application/json"}
        return {asked(port, *ask, {**form, **as_json}, "{}") for ask in asks for form in forms} == {401}

    def cassandra(port: int) -> bool:
        if not any(s.port == port and s.name == "cassandra" for s in services):
            # Internode connections use TLS, with a key that only this node has.
            plain = said(port, b"\xca\x55\x2d\xfa" + bytes(60))
            wrapped = said(port, bytes(64), wrap=unchecked.wrap_socket)
            return plain in (b"", b"\x15\x03\x03\x00\x02\x02\x50") and wrapped == b""
        known = (Account("cassandra", "cassandra"), stranger)
        return all(cql.cluster_name("127.0.0.1", port, each) is None for each in known)

    def postgres(port: int) -> bool:
        for user in ("gearshift", "postgres"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(host="127.0.0.1", port=port, user=user, password="wrong", dbname="gearshift")
        return True

    def spark(port: int) -> bool:
        # The py4j gateway answers an unauthenticated request with an error; the others use Spark's protocol.
        return not said(port, b"r\nu\njava.lang.System\ne\n").startswith(b"!y") and not spark_answers(
            java, port
        )

    def runner(port: int) -> bool:
        token = f"Bearer {running.note.token}"
        if port == running.note.port:
            asks = [
                ("GET", "/api/status"),
                ("POST", "/api/pipelines/copy/shift"),
                ("GET", "/"),
                ("GET", "/api/no"),
            ]
            forms: list[dict[str, str]] = [{}, {"Authorization": "Bearer wrong"}]
            hostile: list[dict[str, str]] = [
                {"Authorization": token, **evil},
                {"Authorization": token, "Origin": "http://evil.example"},
            ]
            found = {asked(port, *ask, form) for ask in asks for form in forms}
            refused = {asked(port, *ask, form) for ask in asks for form in hostile}
            refused |= {asked(port, "GET", path, evil) for path in ("/metrics", "/health", "/static/live.js")}
            return (found, refused) == ({401}, {403})
        if port == running.ingest:
            forms = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": token}]
            return {asked(port, "POST", "/topics/words", form, '{"text": "b"}') for form in forms} == {401}
        # Where Java calls Python back, and where PySpark's accumulators are kept.
        return not said(port, b"c\np0\ntoString\ne\n").startswith(b"!y")

    services = local_services(running)
    return {
        "kafka.Kafka": kafka,
        "gearshift.registry": registry,
        "ConnectDistributed": connect,
        "CassandraDaemon": cassandra,
        "bin/postgres": postgres,
        "org.apache.spark": spark,
        "gearshift run": runner,
        "pyspark.daemon": spark,
    }


def local_services(running: Running) -> tuple[Any, ...]:
    found = local.find(load({}, folder=running.folder, environ={}))
    assert found is not None
    return found.services


def test_every_socket_of_a_running_app_is_on_loopback_and_requires_credentials(
    running: Running, java: Any
) -> None:
    kinds = locks(running, java)
    sockets = listening(tree(running.pid))
    names = {one: next((kind for kind in kinds if kind in one.command), "?") for one in sockets}
    print(*(f"{names[one]} {one.port} {one.address} {one.command[:60]}" for one in sockets), sep="\n")
    assert {one.address for one in sockets} <= LOOPBACK
    assert set(names.values()) >= set(kinds) - {"pyspark.daemon"}, names
    assert "?" not in names.values()
    unlocked = [one for one in sockets if not kinds[names[one]](one.port)]
    assert not unlocked
    # With credentials each port answers: a lock that rejects everyone proves nothing.
    with local_connection(running) as admin:
        assert {"words", "copies"} <= set(admin.list_topics(timeout=30).topics)


def local_connection(running: Running) -> AdminClient:
    from gearshift.stack import connect
    from tests.support import librdkafka

    settings = load({}, folder=running.folder, environ={})
    connection = connect(settings)
    strangers = ({}, {**librdkafka(connection), "sasl.password": "wrong"})
    for given in strangers:
        client = AdminClient({**given, "bootstrap.servers": connection.bootstrap_servers}, logger=SILENT)
        with pytest.raises(KafkaException):
            client.list_topics(timeout=2)
    return AdminClient(librdkafka(connection), logger=SILENT)


def test_no_secret_is_in_a_command_line_readable_file_output_or_response(running: Running) -> None:
    secrets = running.secrets()
    assert all(len(secret) >= 20 for secret in secrets.values())

    def leaks(text: str | bytes) -> list[str]:
        data = text.encode() if isinstance(text, str) else text
        return [name for name, secret in secrets.items() if secret.encode() in data]

    pids = tree(running.pid)
    assert not {command_of(pid)[:80]: leaks(command_of(pid)) for pid in pids if leaks(command_of(pid))}
    for service in local_services(running):
        environ = Path(f"/proc/{service.pid.number}/environ").read_bytes()
        assert not leaks(environ), service.name
    status = subprocess.run(
        [GEARSHIFT, "status", "-o", "json"], cwd=running.folder, capture_output=True, text=True, check=True
    )
    assert not leaks(status.stdout + status.stderr)
    assert not leaks((running.folder / "said").read_bytes())
    assert not leaks(json.dumps(answer(running, "/api/status")))
    connection = http.client.HTTPConnection("127.0.0.1", running.note.port, timeout=30)
    connection.request("GET", "/metrics")
    assert not leaks(connection.getresponse().read())
    connection.close()
    assert stat.S_IMODE(running.home.stat().st_mode) == 0o700
    wide: dict[str, list[str]] = {}
    logged: dict[str, list[str]] = {}
    for path in running.home.rglob("*"):
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > 64 << 20:
                continue
            held = leaks(path.read_bytes())
        except FileNotFoundError:
            continue  # a file that Spark or Kafka has deleted
        if held and found.st_mode & 0o077:
            wide[str(path.relative_to(running.home))] = held
        if held and path.suffix == ".log" and "stack/kafka/kafka-1" not in str(path):
            logged[str(path.relative_to(running.home))] = held
    assert not wide
    assert not logged
    open_to_all = [
        str(path.relative_to(running.home))
        for path in (running.home / "stack").rglob("*")
        if "/postgres/data" not in str(path) and not path.is_symlink() and path.lstat().st_mode & 0o077
    ]
    assert not open_to_all


SECRETS_OF_SETTINGS = """
bootstrap_servers = "127.0.0.1:{port}"
registry_url = "http://me:{canary}@127.0.0.1:{port}/apis"
postgres = "postgresql://me:{canary}@127.0.0.1:{port}/x"
cassandra = "me:{canary}@127.0.0.1:{port}"
connect_url = "http://me:{canary}@127.0.0.1:{port}"
services = ["postgres", "cassandra", "connect"]
[kafka]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "me"
"sasl.password" = "{canary}"
"ssl.key.password" = "{canary}"
[registry]
"ssl.key.password" = "{canary}"
[spark]
"spark.hadoop.fs.s3a.secret.key" = "{canary}"
"spark.authenticate.secret" = "{canary}"
"""


def test_a_canary_in_every_setting_is_in_no_output_or_file(tmp_path: Path) -> None:
    canary = f"canary{os.urandom(8).hex()}"
    (tmp_path / "gearshift.toml").write_text(SECRETS_OF_SETTINGS.format(canary=canary, port=closed_port()))
    (tmp_path / "app.py").write_text(APP.format(port=closed_port(), closed=closed_port(), canary="other"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    commands = (
        ["up"],
        ["status", "-o", "json"],
        ["doctor", "-o", "json"],
        ["topic", "list"],
        ["run", "app.py"],
    )
    running = {
        " ".join(words): subprocess.Popen(
            [GEARSHIFT, *words],
            cwd=tmp_path,
            env={**environ, "INGEST_TOKEN": canary},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words in commands
    }
    seen: set[str] = set()
    while any(process.poll() is None for process in running.values()):
        seen |= {command_of(pid) for process in running.values() for pid in tree(process.pid)}
        time.sleep(0.1)
    for words, process in running.items():
        output = process.communicate()[0]
        assert output, words
        assert canary not in output, words
        assert "Traceback" not in output, output
    assert not [command for command in seen if canary in command]
    written = [path for path in (tmp_path / ".gearshift").rglob("*") if path.is_file()]
    assert not [path for path in written if canary.encode() in path.read_bytes()]
