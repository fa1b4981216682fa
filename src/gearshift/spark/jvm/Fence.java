package gearshift;

import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Ends this process, without an orderly end that could write, when another runner has or may have taken its lease: when
 * this process or the Python process that renews the lease stood still for too long, or when the next lease exists.
 *
 * It asks nothing of Python, where a library that waits for a store may keep every thread from running.
 */
public class Fence extends Thread {
  private static final int PAUSE_MS = 20;
  private static final int LOOKS_EVERY_MS = 1000;
  private static final int ENDED = 75;
  private static volatile Fence current;
  private final String next;
  private final int python;
  private final long limitMs;
  private final Configuration configuration;

  private Fence(String next, int python, long limitMs, Configuration configuration) {
    super("gearshift fence");
    this.next = next;
    this.python = python;
    this.limitMs = limitMs;
    this.configuration = configuration;
  }

  public static void open(String next, int python, long limitMs, Configuration configuration) {
    final Fence opened = new Fence(next, python, limitMs, configuration);
    current = opened;
    opened.setDaemon(true);
    opened.setPriority(Thread.MAX_PRIORITY);
    opened.start();
    Thread looking = new Thread("gearshift fence: next lease") {
      public void run() { opened.look(); }
    };
    looking.setDaemon(true);
    looking.start();
  }

  public static void close() { current = null; }

  public void run() {
    long seen = nowMs(), collected = collectedMs(), running = seen;
    while (pause(PAUSE_MS)) {
      long now = nowMs(), collecting = collectedMs();
      // A long garbage collection is no reason: meanwhile Python has renewed the lease.
      if (now - seen - (collecting - collected) > limitMs) end("this process stood still");
      seen = now;
      collected = collecting;
      if (!isStopped()) running = now;
      if (now - running > limitMs) end("the Python process stood still");
    }
  }

  private void look() {
    Path path = new Path(next);
    while (pause(LOOKS_EVERY_MS)) {
      try {
        if (path.getFileSystem(configuration).exists(path)) end("another runner has taken the lease");
      } catch (IOException unreachable) {
        // Then nobody else can take it either.
      }
    }
  }

  private boolean pause(int milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException stopped) {
      return false;
    }
    return current == this;
  }

  private boolean isStopped() {
    try {
      String status = new String(Files.readAllBytes(Paths.get("/proc/" + python + "/stat", new String[0])), StandardCharsets.ISO_8859_1);
      char state = status.charAt(status.lastIndexOf(')') + 2);
      return state == 'T' || state == 't';
    } catch (IOException ended) {
      return false; // then this process ends too
    }
  }

  private static long nowMs() { return System.nanoTime() / 1000000L; }

  private static long collectedMs() {
    long sum = 0;
    for (Iterator beans = ManagementFactory.getGarbageCollectorMXBeans().iterator(); beans.hasNext();) {
      sum += ((GarbageCollectorMXBean) beans.next()).getCollectionTime();
    }
    return sum;
  }

  private void end(String why) {
    if (current != this) return;
    System.err.println("ended by the fence: " + why);
    Runtime.getRuntime().halt(ENDED);
  }
}
