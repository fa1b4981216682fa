"""Wraps Spark's Kafka consumers: ends a real-time batch early, and fails at a topic that was created again.

A task of a real-time batch reads its partition until the batch's time is over, and on an idle partition blocks in a
single poll for all of that time; Spark cannot end it early and keep its result. With a local master the consumers are
in the driver's JVM. So each consumer gets a proxy that polls in slices and, once its batch should end, returns records
that claim to have an element but fail when it is read: Spark's reader takes that for a poll timeout. The partition is
done, its offset is logged, and the batch commits as usual.

A consumer that reads on in a topic that was deleted and created again gets other records at the old offsets. The proxy
compares the topic's id with the one that the checkpoint has read, after every poll.

On a cluster, or with another Kafka client than the bundled one, nothing is installed: a stop interrupts the batch, and a
topic that was created again is noticed within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from gearshift.pipelines.live_progress import GROUP
from gearshift.pipelines.records.reading import TOPIC_ID
from gearshift.spark import private
from gearshift.spark.private import Py4JError

log = logging.getLogger(__name__)

_CLASS = "gearshift.EndableConsumers"
_JAVA = (
    (
        """
package gearshift;

import java.lang.reflect.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.internals.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;

public class EndableConsumers extends ConsumerDelegateCreator {
  public static final Map ENDING = new ConcurrentHashMap();
  private static final Duration SLICE = Duration.ofMillis(100);
  private final ConsumerDelegateCreator creator;

  public EndableConsumers(ConsumerDelegateCreator creator) { this.creator = creator; }

  public static void install() throws Exception {
    Field given = KafkaConsumer.class.getDeclaredField("CREATOR");
    given.setAccessible(true);
    Field held = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
    held.setAccessible(true);
    sun.misc.Unsafe unsafe = (sun.misc.Unsafe) held.get(null);
    Object mine = new EndableConsumers((ConsumerDelegateCreator) given.get(null));
    unsafe.putObject(unsafe.staticFieldBase(given), unsafe.staticFieldOffset(given), mine);
  }

  public ConsumerDelegate create(ConsumerConfig config, Deserializer keys, Deserializer values) {
    ConsumerDelegate made = creator.create(config, keys, values);
    String group = config.getString("group.id");
    if (group == null || !group.startsWith("PREFIX") || !group.endsWith("-executor")) return made;
    Class[] kinds = new Class[] {ConsumerDelegate.class};
    ClassLoader loader = ConsumerDelegate.class.getClassLoader();
    Shell shell = new Shell(made, group, (String) config.originals().get("TOPIC_ID"), metadata(made));
    return (ConsumerDelegate) Proxy.newProxyInstance(loader, kinds, shell);
  }

  private static Metadata metadata(Object consumer) {
    try {
      Field held = consumer.getClass().getDeclaredField("metadata");
      held.setAccessible(true);
      return (Metadata) held.get(consumer);
    } catch (NoSuchFieldException otherConsumer) {
      return null;
    } catch (IllegalAccessException otherConsumer) {
      return null;
    }
  }

  public static boolean isEnding(String group) {
    if (ENDING.isEmpty()) return false;
    Iterator prefixes = ENDING.keySet().iterator();
    while (prefixes.hasNext()) if (group.startsWith((String) prefixes.next())) return true;
    return false;
  }

  public static class Shell implements InvocationHandler {
    private final ConsumerDelegate consumer;
    private final String group;
    private final String topicId;
    private final Metadata metadata;

    public Shell(ConsumerDelegate consumer, String group, String topicId, Metadata metadata) {
      this.consumer = consumer;
      this.group = group;
      this.topicId = topicId;
      this.metadata = metadata;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      if (method.getName().equals("poll") && arguments.length == 1 && arguments[0] instanceof Duration)
        return poll((Duration) arguments[0]);
      try {
        return method.invoke(consumer, arguments);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    }

    private ConsumerRecords poll(Duration time) {
      long until = System.nanoTime() + time.toNanos();
      Set assigned = consumer.assignment();
      if (assigned.size() != 1) return same(consumer.poll(time));
      TopicPartition partition = (TopicPartition) assigned.iterator().next();
      while (true) {
        if (isEnding(group)) return new ConsumerRecords(Collections.singletonMap(partition, new Ended()));
        Duration left = Duration.ofNanos(Math.max(0L, until - System.nanoTime()));
        long before = position(partition);
        ConsumerRecords found = consumer.poll(left.compareTo(SLICE) < 0 ? left : SLICE);
        if (!found.isEmpty() || System.nanoTime() >= until) return same(found);
        long after = position(partition);
        if (before >= 0 && after >= 0 && before != after) return same(found);
      }
    }

    // Records of another topic id can only arrive once the metadata has that id. Java and librdkafka write ids in two
    // alphabets of base64.
    private ConsumerRecords same(ConsumerRecords found) {
      if (found.isEmpty() || topicId == null || metadata == null) return found;
      Iterator partitions = found.partitions().iterator();
      while (partitions.hasNext()) {
        String topic = ((TopicPartition) partitions.next()).topic();
        Object id = metadata.topicIds().get(topic);
        if (id != null && !topicId.equals(id.toString().replace('-', '+').replace('_', '/')))
          throw new org.apache.kafka.common.KafkaException("topic " + topic + " was deleted and created again");
      }
      return found;
    }

    private long position(TopicPartition partition) {
      try {
        return consumer.position(partition, Duration.ZERO);
      } catch (org.apache.kafka.common.errors.TimeoutException leaderIsUnknown) {
        return -1L;
      }
    }
  }

  public static class Ended extends AbstractList {
    public Object get(int index) { throw new NoSuchElementException(); }
    public int size() { return 0; }
    public boolean isEmpty() { return false; }
    public ListIterator listIterator(int index) { return new Once(super.listIterator(0)); }
    public ListIterator listIterator() { return listIterator(0); }
  }

  public static class Once implements ListIterator {
    private final ListIterator none;
    private boolean asked = false;

    public Once(ListIterator none) { this.none = none; }
    public boolean hasNext() { boolean first = !asked; asked = true; return first; }
    public Object next() { return none.next(); }
    public boolean hasPrevious() { return false; }
    public Object previous() { return none.previous(); }
    public int nextIndex() { return 0; }
    public int previousIndex() { return -1; }
    public void remove() { none.remove(); }
    public void set(Object record) { none.set(record); }
    public void add(Object record) { none.add(record); }
  }
}
"""
    )
    .replace("PREFIX", GROUP)
    .replace("TOPIC_ID", TOPIC_ID)
)


class Endings:
    """Ends the batches of a session's real-time queries early."""

    def __init__(self, spark: SparkSession) -> None:
        self._ending: Any = None
        if not (spark.sparkContext.master or "").startswith("local"):
            return
        try:
            self._ending = _installed(spark)
        except Py4JError as error:
            log.warning(
                "a stop in real-time will replay the open batch: its consumers cannot be ended early: %s",
                str(error).splitlines()[0],
            )

    @property
    def works(self) -> bool:
        """Whether real-time batches can be ended early."""
        return self._ending is not None

    @contextmanager
    def ending(self, groups: Iterable[str]) -> Generator[None]:
        """End the batches of these consumer groups; batches that begin meanwhile end at once and read nothing."""
        prefixes = [f"{group}-" for group in groups] if self.works else []
        for prefix in prefixes:
            self._ending.put(prefix, prefix)
        try:
            yield
        finally:
            for prefix in prefixes:
                self._ending.remove(prefix)


def _installed(spark: SparkSession) -> Any:
    """The Java map of the groups whose batches end; the class is installed once, since a JVM outlives its sessions."""
    if private.consumer_creator(spark).getClass().getName() != _CLASS:
        private.compile_class(spark, _CLASS, _JAVA).getMethod("install", None).invoke(None, None)
    return private.consumer_creator(spark).getClass().getField("ENDING").get(None)
