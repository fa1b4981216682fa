"""The local stack, for real: started, found, restarted, killed and stopped."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import timeit
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from gearshift import stack as local
from gearshift.errors import ArtifactError, JavaError, StackError, TamperedArtifactError
from gearshift.settings import Settings, load
from gearshift.stack import doctor
from gearshift.stack.artifacts import artifacts
from gearshift.stack.processes import background as supervisor
from gearshift.stack.processes import ports
from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.stack.processes.service import Pid
from tests.support import eventually, librdkafka, registry_client

CACHE = load().cache
SCHEMA = Schema('{"type": "record", "name": "Reading", "fields": [{"name": "kw", "type": "double"}]}', "AVRO")


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings with a separate home; services that a test leaves running are stopped."""
    settings = Settings(home=tmp_path / "home", cache=CACHE)
    yield settings
    local.down(settings)


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose stack has run once, with a topic, a record and a schema in it."""
    settings = Settings(home=tmp_path_factory.mktemp("born"), cache=CACHE)
    with local.up(settings) as stack:
        assert stack.owned
        admin = AdminClient(librdkafka(stack.connection))
        admin.create_topics([NewTopic("readings", 2)])["readings"].result(10)
        producer = Producer(librdkafka(stack.connection))
        producer.produce("readings", b"17", partition=1)
        assert producer.flush(10) == 0
        with SchemaRegistryClient(registry_client(stack.connection)) as registry:
            registry.register_schema("readings-value", SCHEMA)
    assert all(not service.ready for service in stack.services)
    assert local.find(settings) is None
    return settings.home


@pytest.fixture
def again(born: Path, tmp_path: Path) -> Iterator[Settings]:
    """A copy of that home, so that each test has one that is formatted and filled."""
    home = tmp_path / "home"
    shutil.copytree(born, home)
    settings = Settings(home=home, cache=CACHE)
    yield settings
    local.down(settings)


def listening_elsewhere(port: int) -> bool:
    """Whether a port answers on an address of this machine other than loopback's first."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.2", port)) == 0


def test_topics_records_and_schemas_survive_a_restart_and_schemas_even_kill_9(
    again: Settings, born: Path
) -> None:
    with local.up(again) as stack:
        written = ports.saved(born / "stack" / "ports.json")
        assert {service.name: service.port for service in stack.services}.items() <= written.items()
        with SchemaRegistryClient(registry_client(stack.connection)) as registry:
            assert registry.get_latest_version("readings-value").schema.schema_type == "AVRO"
            number = registry.register_schema("alerts-value", SCHEMA)
            os.kill(
                next(service.pid.number for service in stack.services if service.name == "registry"),
                signal.SIGKILL,
            )
            eventually(stack.dead)
            stack.start_service("registry")
            assert registry.get_latest_version("alerts-value").schema_id == number
        consumer = Consumer({**librdkafka(stack.connection), "group.id": "test"})
        try:
            consumer.assign([TopicPartition("readings", 1, 0)])
            record = eventually(lambda: consumer.poll(1))
            assert record.value() == b"17"
        finally:
            consumer.close()


def test_a_running_stack_is_found_and_shared_and_listens_on_loopback_only(again: Settings) -> None:
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(lambda _: local.up(again), range(2))
    try:
        assert sorted((first.owned, second.owned)) == [False, True]
        assert first.connection == second.connection
        assert min(timeit.repeat(lambda: local.find(again), number=1, repeat=5)) < 0.05
        found = local.find(again)
        assert found is not None
        assert not found.owned
        with found:
            pass  # leaving a stack that was found stops nothing
        described = local.describe(again)
        assert [(service["name"], service["ready"]) for service in described["services"]] == [
            ("registry", True),
            ("kafka-1", True),
        ]
        assert not any(listening_elsewhere(service.port) for service in found.services)
        with pytest.raises(StackError, match="has 1 broker, but 3 were requested"):
            local.up(again.model_copy(update={"brokers": 3}))
        admin = AdminClient(librdkafka(found.connection))
        admin.list_topics("never-declared", timeout=30)
        assert "never-declared" not in admin.list_topics(timeout=30).topics
    finally:
        first.stop()
        second.stop()
    assert local.find(again) is None


def test_a_saved_port_that_another_program_uses_is_replaced(again: Settings) -> None:
    again = again.model_copy(update={"registry_url": "http://127.0.0.1:1/registry"})
    file = again.home / "stack" / "ports.json"
    before = ports.saved(file)
    with socket.socket() as other:
        other.bind((ports.HOST, before["kafka-1-controller"]))
        other.listen()
        finding = next(finding for finding in doctor.diagnose(again) if finding.name == "ports")
        assert str(before["kafka-1-controller"]) in finding.found
        with local.up(again):
            after = ports.saved(file)
    assert after["kafka-1-controller"] != before["kafka-1-controller"]
    assert after["kafka-1"] == before["kafka-1"]


def test_a_detached_stack_is_stopped_from_another_process_and_nothing_is_left(again: Settings) -> None:
    stack = supervisor.detach(again)
    assert not stack.owned
    assert local.up(again).bootstrap_servers == stack.bootstrap_servers
    written = json.loads((again.home / "stack" / "state.json").read_text())
    owner = Pid(**written["owner"])
    assert owner.alive
    assert local.down(again)
    assert not any(service.ready for service in stack.services)
    eventually(lambda: not owner.alive)
    assert all(ports.is_free(service.port) for service in stack.services)
    assert not local.down(again)


def up_in_a_parent_that_is_killed(settings: Settings, *, after: Sequence[str] = ()) -> local.Stack:
    """A stack as it was when the process that started it was killed, after some of its services."""
    program = (
        "import sys, threading; from gearshift import stack; from gearshift.settings import Settings; "
        "settings = Settings.model_validate_json(sys.argv[1]); "
        # Started in a thread that ends: the services belong to the process, not to that thread.
        "thread = threading.Thread(target=stack.up, args=(settings,)); thread.start(); thread.join(); "
        "print('up', flush=True); sys.stdin.read()"
    )
    said = settings.model_dump_json(include={"home", "cache", "brokers", "registry_url"})
    command = [sys.executable, "-c", program, said]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        stack = local.find(settings)
        assert stack is not None
        for pid in (*(service.pid.number for service in stack.services if service.name in after), parent.pid):
            os.kill(pid, signal.SIGKILL)
    return stack


def test_a_kill_9_of_the_parent_leaves_nothing_and_the_next_up_starts_again(again: Settings) -> None:
    stack = up_in_a_parent_that_is_killed(again)
    # At once, while they are still ending: the next `up` waits for them.
    assert local.find(again) is None
    with local.up(again) as next_stack:
        assert next_stack.owned
        assert not any(service.ready for service in stack.services)
        admin = AdminClient(librdkafka(next_stack.connection))
        assert "readings" in admin.list_topics(timeout=30).topics


def test_a_kill_9_of_the_parent_leaves_none_of_three_brokers(tmp_path: Path) -> None:
    elsewhere = "http://127.0.0.1:1/registry"
    settings = Settings(home=tmp_path / "home", cache=CACHE, brokers=3, registry_url=elsewhere)
    # The third would wait for minutes for controllers that have ended.
    stack = up_in_a_parent_that_is_killed(settings, after=("kafka-1", "kafka-2"))
    eventually(lambda: not any(service.pid.alive for service in stack.services), within=60)


def test_three_brokers_replicate_and_a_killed_one_rejoins(tmp_path: Path) -> None:
    elsewhere = "http://127.0.0.1:1/registry"
    settings = Settings(home=tmp_path / "home", cache=CACHE, brokers=3, registry_url=elsewhere)
    with local.up(settings) as stack:
        assert stack.registry_url == elsewhere
        assert [service.name for service in stack.services] == ["kafka-1", "kafka-2", "kafka-3"]
        admin = AdminClient(librdkafka(stack.connection))
        admin.create_topics([NewTopic("readings", 1)])["readings"].result(10)

        def described() -> list[
            PartitionMetadata
        ]:  # a broker may know the topic a moment later than the one asked
            return list(admin.list_topics("readings", timeout=30).topics["readings"].partitions.values())

        (partition,) = eventually(described)
        assert len(partition.replicas) == 3

        leader = f"kafka-{partition.leader}"
        pid = next(service.pid for service in stack.services if service.name == leader)
        os.kill(pid.number, signal.SIGKILL)
        eventually(stack.dead)
        producer = Producer({**librdkafka(stack.connection), "acks": "all"})
        failed: list[KafkaError] = []
        producer.produce(
            "readings", b"17", on_delivery=lambda error, _: failed.append(error) if error else None
        )
        assert producer.flush(30) == 0
        assert failed == []
        assert local.find(settings) is not None

        stack.start_service(leader)
        assert stack.dead() == []

        def in_sync() -> bool:
            try:
                (now,) = admin.list_topics("readings", timeout=30).topics["readings"].partitions.values()
            except KafkaException:
                return False
            return len(now.isrs) == 3

        eventually(in_sync)
    with pytest.raises(StackError, match="belongs to 3 brokers, but 1 were requested"):
        local.up(settings.model_copy(update={"brokers": 1}))


def test_a_tampered_jar_is_refused_by_name_with_both_hashes(tmp_path: Path) -> None:
    for jar in artifacts.jars("spark", cache=CACHE):
        (tmp_path / "artifacts").mkdir(exist_ok=True)
        shutil.copy(jar, tmp_path / "artifacts")
    victim = next((tmp_path / "artifacts").glob("kafka-clients-*.jar"))
    content = bytearray(victim.read_bytes())
    content[1000] ^= 1  # the same size and, below, the same time of change
    times = victim.stat()
    victim.write_bytes(content)
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(TamperedArtifactError) as refused:
        artifacts.jars("spark", cache=tmp_path)
    locked = next(a for a in artifacts.members("spark") if a.file == victim.name)
    for word in (str(victim), locked.sha256, artifacts.file_sha256(victim), "delete it and run again"):
        assert word in str(refused.value)


def test_a_file_added_to_an_unpacked_archive_is_refused(tmp_path: Path) -> None:
    program = artifacts.folder("debezium", cache=CACHE)
    copied = tmp_path / "artifacts" / program.name
    shutil.copytree(program, copied, copy_function=os.link)
    assert artifacts.folder("debezium", cache=tmp_path) == copied
    (copied / "aaa.jar").write_bytes(b"x")
    with pytest.raises(TamperedArtifactError):
        artifacts.folder("debezium", cache=tmp_path)


def test_a_missing_jar_without_a_network_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", nobody)
    with pytest.raises(ArtifactError, match="no Maven repository is reachable"):
        artifacts.jars("spark", cache=tmp_path)


def test_a_missing_java_is_reported_with_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(settings.home))
    with pytest.raises(JavaError, match=r"^no Java found; install a JDK 17 or newer, e\.g\. apt-get install"):
        local.up(settings)
    wrong = [finding for finding in doctor.diagnose(settings) if not finding.ok]
    assert [finding.name for finding in wrong] == ["java"]


def test_an_external_cluster_starts_nothing(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path / "home", bootstrap_servers="kafka:9092", registry_url="http://registry"
    )
    with local.up(settings) as stack:
        assert (stack.connection.bootstrap_servers, stack.connection.registry_url) == (
            "kafka:9092",
            "http://registry",
        )
        assert (stack.services, stack.owned) == ((), False)
    assert not settings.home.exists()


def test_a_broker_that_could_not_write_is_reported_and_restarted(again: Settings) -> None:
    """Its files cannot grow, so its writes fail and it exits as on a full disk."""
    heard: list[str] = []
    with local.up(again) as stack, ServiceSupervisor(stack, progress=heard.append) as supervisor:
        broker = next(service.pid.number for service in stack.services if service.name == "kafka-1")
        resource.prlimit(broker, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        producer = Producer(librdkafka(stack.connection) | {"enable.idempotence": True})
        for number in range(20):
            producer.produce("readings", b"x" * 1000, key=b"%d" % number)
        problem = eventually(lambda: supervisor.problem or "", within=60)
        assert problem.startswith("broker kafka-1 has ended: ")
        assert producer.flush(120) == 0  # records sent meanwhile arrive at the restarted broker
        eventually(lambda: supervisor.problem is None)
        assert any("restarting kafka-1" in words for words in heard)
        assert stack.usable
