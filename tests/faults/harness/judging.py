"""What arrived at every destination, against what was sent and what is promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass

from gearshift import tables
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.schemas import Decoder, Registry
from gearshift.stack import find_service
from gearshift.topics.dead_letters.letters import DeadLetterTopic, Filter
from tests.faults.deliveries.ledger import judge
from tests.faults.harness.app import LATEST
from tests.faults.harness.guarantees import GUARANTEES
from tests.faults.harness.world import GROUPS, World
from tests.flow import committed, committed_values
from tests.support import eventually

Numbers = list[tuple[str, int]]
Aside = dict[str, set[tuple[str, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The counts of one destination, and how many duplicates its guarantee leaves room for."""

    destination: str
    arrived: int
    lost: int
    duplicated: int
    allowed: int
    out_of_order: int = 0
    set_aside: int = 0

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return not self.lost and not self.out_of_order and self.duplicated <= self.allowed

    def __str__(self) -> str:
        words = (
            f"{self.destination}: {self.arrived} arrived, {self.lost} lost, {self.duplicated} duplicated "
            f"(at most {self.allowed}), {self.out_of_order} out of order, {self.set_aside} set aside"
        )
        return words if self.kept else f"{words}  <- broken"


def settle(world: World) -> list[Verdict]:
    """Wait for the rest, replay the dead letters, and judge every destination."""
    with world.flow.paused():
        world.drain()
        replayed = dead_letters(world)
        done = world.command("dlq", "replay", "numbered")
        assert done.returncode == 0, done.stderr
        _await_replays(world)
        world.drain()
        left = dead_letters(world)
        return [*_deliveries(world, replayed, left), *_pipelines(world)]


def dead_letters(world: World) -> Aside:
    """The records that each group has set aside."""
    found: Aside = {group: set() for group in GROUPS}
    with Registry(world.connection) as registry:
        decode = Decoder(world.declared.graph.topics["numbered"], registry)
        for letter in DeadLetterTopic(world.connection, "numbered").open_letters(Filter.parse(())):
            value = decode(letter.value)
            found.setdefault(letter.group_id or letter.failed_in, set()).add((value.key, value.n))
    return found


def _await_replays(world: World) -> None:
    if "numbered.replay" not in world.admin.names():
        return

    # Behind the last record lies the marker of its transaction, which nobody commits.
    ends: dict[tuple[str, int], int] = {}
    for record in committed(world.connection, "numbered.replay"):
        ends["numbered.replay", record.partition] = record.offset + 1

    def done() -> bool:
        read = [world.admin.group_offsets(group, ["numbered.replay"]) for group in GROUPS]
        return all(offsets.get(place, 0) >= end for offsets in read for place, end in ends.items())

    eventually(done, every=0.5)


def _deliveries(world: World, replayed: Aside, left: Aside) -> Iterable[Verdict]:
    rows: Numbers = world.database.execute('select "key", n from arrivals order by nr').fetchall()
    delivered = committed_values(world.connection, world.declared.graph.topics["delivered"])
    posted = [request.json for request in world.webhook.accepted]
    texts = [request.form["Body"].split() for request in world.sms.accepted]
    mails = [mail.message["Subject"].split() for mail in world.smtp.mails]
    arrived: dict[str, Numbers] = {
        "postgres": rows,
        "cassandra": _in_cassandra(world),
        "topic": [(value.key, value.n) for value in delivered],
        "webhook": [(body["key"], body["n"]) for body in posted],
        "sms": [(key, int(n)) for key, n in texts],
        "email": [(key, int(n)) for key, n in mails],
    }
    for group, numbers in arrived.items():
        yield _judge(world, group, numbers, aside=replayed[group] | left[group], left=left[group])


def _in_cassandra(world: World) -> Numbers:
    points = find_service("cassandra", world.settings).get_secret_value()
    cluster, session = connect(ContactPoints.read(points), name="harness")
    try:
        found = [(row.key, row.n, row.latest) for row in session.execute("select * from faults.arrivals")]
    finally:
        cluster.shutdown()
    latest = {key: value for key, n, value in found if n == LATEST}
    numbers = sorted((key, n) for key, n, _ in found if n != LATEST)
    assert latest == dict(numbers), "an older record has replaced a newer one"
    return numbers


def _pipelines(world: World) -> Iterable[Verdict]:
    copies = committed_values(world.connection, world.declared.graph.topics["copies"])
    yield _judge(world, "copies", [(value.key, value.n) for value in copies])
    warehouse = world.settings.warehouse_uri
    yield _judge(world, "kept", sorted(tables.sql(warehouse, "select key, n from kept").rows))
    totals = dict(tables.sql(warehouse, "select key, count from totals").rows)
    wrong = Counter(world.flow.sent)
    wrong.subtract(Counter(key for key, _ in world.gone))
    wrong.subtract(totals)
    yield Verdict(
        destination="totals",
        arrived=sum(totals.values()),
        lost=sum(count for count in wrong.values() if count > 0),
        duplicated=-sum(count for count in wrong.values() if count < 0),
        allowed=GUARANTEES["totals"].duplicates(world),
    )


def _judge(
    world: World,
    destination: str,
    numbers: Numbers,
    *,
    aside: Set[tuple[str, int]] = frozenset(),
    left: Set[tuple[str, int]] = frozenset(),
) -> Verdict:
    missing = {(key, n) for key, count in world.flow.sent.items() for n in range(count)}.difference(numbers)
    # What was set aside came later than what was not: that is what setting aside means.
    in_order = judge(world.flow.sent, [each for each in numbers if each not in aside])
    return Verdict(
        destination=destination,
        arrived=len(set(numbers)),
        lost=len(missing - world.gone - (left & world.flow.oversize)),
        duplicated=judge(world.flow.sent, numbers).duplicated,
        allowed=GUARANTEES[destination].duplicates(world),
        out_of_order=in_order.out_of_order,
        set_aside=len(left),
    )
