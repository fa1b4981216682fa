package gearshift;

/** Bytes that do not fit their type: the reason, and the way to it from the outside in. */
public class Misfit extends Exception {
  private final String reason;
  private final String path;

  public Misfit(String reason) { this(reason, ""); }

  private Misfit(String reason, String path) {
    super(reason, null, false, false);
    this.reason = reason;
    this.path = path;
  }

  public Misfit inside(String step) { return new Misfit(reason, path.isEmpty() ? step : step + "." + path); }

  public String getMessage() { return path.isEmpty() ? reason : "field " + path + ": " + reason; }
}
