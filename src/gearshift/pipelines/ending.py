"""Ends a real-time batch now instead of minutes later, so that a stop or a shift leaves nothing to write again.

A task of a real-time batch reads each partition until the batch's time is over, and on an idle partition sits in one
call of the consumer for all of that time; Spark has no way to end it early and keep what it did. With a local master
the consumers are in the driver's JVM. So each gets a shell that lets it poll in slices and, once its batch
is to end, answers with a list which has a record when it is first asked and none when it is asked for it: to Spark's
reader that is a poll whose time is over. The partition is done, its offset is logged, and the batch commits as ever.

On a cluster, or with another Kafka client than the one we bring, nothing is changed: a stop is then a stop in mid-batch.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import SparkSession

from gearshift.pipelines.live import GROUP

log = logging.getLogger(__name__)

_CLASS = "gearshift.EndableConsumers"
_JAVA = (
    """
package gearshift;

import java.lang.reflect.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
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
    return (ConsumerDelegate) Proxy.newProxyInstance(loader, kinds, new Shell(made, group));
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

    public Shell(ConsumerDelegate consumer, String group) { this.consumer = consumer; this.group = group; }

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
      if (assigned.size() != 1) return consumer.poll(time);
      TopicPartition partition = (TopicPartition) assigned.iterator().next();
      while (true) {
        if (isEnding(group)) return new ConsumerRecords(Collections.singletonMap(partition, new Ended()));
        Duration left = Duration.ofNanos(Math.max(0L, until - System.nanoTime()));
        long before = position(partition);
        ConsumerRecords found = consumer.poll(left.compareTo(SLICE) < 0 ? left : SLICE);
        if (!found.isEmpty() || System.nanoTime() >= until) return found;
        long after = position(partition);
        if (before >= 0 && after >= 0 && before != after) return found;
      }
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
).replace("PREFIX", GROUP)


class Endings:
    """Says to the real-time queries of one session that their batches are to end."""

    def __init__(self, spark: SparkSession) -> None:
        self._ending: Any = None
        if not (spark.sparkContext.master or "").startswith("local"):
            return
        try:
            self._ending = _installed(spark._jvm)  # pyright: ignore[reportPrivateUsage]
        except Py4JError as error:
            log.warning(
                "a stop in real-time writes the open batch again: its readers cannot be ended: %s",
                str(error).splitlines()[0],
            )

    @property
    def works(self) -> bool:
        """Whether a real-time batch can be ended at all."""
        return self._ending is not None

    @contextmanager
    def ending(self, groups: Iterable[str]) -> Generator[None]:
        """Let the batches of these consumer groups end; those that begin meanwhile end at once and read nothing."""
        prefixes = [f"{group}-" for group in groups] if self.works else []
        for prefix in prefixes:
            self._ending.put(prefix, prefix)
        try:
            yield
        finally:
            for prefix in prefixes:
                self._ending.remove(prefix)


def _installed(jvm: Any) -> Any:
    """The groups that are ending, as the JVM's consumers look them up; a JVM outlives its sessions."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    consumer = jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer", True, loader)
    creator = consumer.getDeclaredField("CREATOR")
    creator.setAccessible(True)
    known = creator.get(None).getClass()
    if known.getName() != _CLASS:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(_JAVA)
        compiled = compiler.getClassLoader().loadClass(_CLASS)
        compiled.getMethod("install", None).invoke(None, None)
        known = creator.get(None).getClass()
    return known.getField("ENDING").get(None)
