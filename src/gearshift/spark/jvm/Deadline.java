package gearshift;

import java.io.IOException;
import java.io.RandomAccessFile;

/**
 * Ends this process, without an orderly end that could write, once the time in a file is over.
 *
 * The Python process writes the time, on the clock that both share, and goes on moving it while it runs. A process that
 * was stopped finds the time over before it has done anything else that takes longer than this thread's pause.
 */
public class Deadline extends Thread {
  private static final int PAUSE_MS = 20;
  private static final int ENDED = 75;
  private static final long NEVER = Long.MAX_VALUE;
  private final RandomAccessFile file;

  private Deadline(RandomAccessFile file) { this.file = file; }

  public static void watch(String path) throws IOException {
    Deadline watching = new Deadline(new RandomAccessFile(path, "r"));
    watching.setName("gearshift deadline");
    watching.setDaemon(true);
    watching.setPriority(Thread.MAX_PRIORITY);
    watching.start();
  }

  public void run() {
    try {
      long until;
      while (System.nanoTime() < (until = until())) {
        if (until == NEVER) return;
        Thread.sleep(PAUSE_MS);
      }
      System.err.println("the Python process stood still for longer than its lease: ended");
    } catch (Throwable failure) {
      System.err.println("the lease cannot be read: " + failure);
    }
    Runtime.getRuntime().halt(ENDED);
  }

  private long until() throws IOException {
    file.seek(0);
    return file.readLong();
  }
}
