package gearshift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Runs the plans of schemas/avro/resolution.py, as schemas/avro/reading.py does. */
class Avro {
  private static final int DEEPEST = 100;
  private static final int LONGEST_NUMBER = 1000;

  static Misfit unreadable(String reason) { return new Misfit("not readable as Avro: " + reason); }

  /** A part of a plan, missing or not. */
  private static JsonNode part(JsonNode plan, String name) {
    JsonNode found = plan.get(name);
    return found == null ? (JsonNode) MissingNode.getInstance() : found;
  }

  static JsonNode item(JsonNode list, int index) { return (JsonNode) list.get(index); }

  /** A place in a payload. */
  static class Cursor {
    final byte[] data;
    int at;

    Cursor(byte[] data, int at) {
      this.data = data;
      this.at = at;
    }

    int left() { return data.length - at; }

    private Misfit tooEarly() { return unreadable("it ends too early"); }

    int next() throws Misfit {
      if (at >= data.length) throw tooEarly();
      return data[at++] & 255;
    }

    long number() throws Misfit {
      int next = next();
      long value = next & 127;
      int shift = 0;
      while (next > 127) {
        shift += 7;
        if (shift > 63) throw unreadable("a number has more than 64 bits");
        next = next();
        if (shift == 63 && (next & 126) != 0) throw unreadable("a number has more than 64 bits");
        value |= (next & 127L) << shift;
      }
      return value >>> 1 ^ -(value & 1L);
    }

    int integer() throws Misfit {
      long number = number();
      if (number != (int) number) throw unreadable("a number has more than 32 bits");
      return (int) number;
    }

    int length() throws Misfit {
      long length = number();
      if (length < 0L) throw unreadable("a length is negative");
      if (length > left()) throw tooEarly();
      return (int) length;
    }

    int take(int size) throws Misfit {
      if (size > left()) throw tooEarly();
      int from = at;
      at += size;
      return from;
    }

    byte[] octets(int size) throws Misfit {
      int from = take(size);
      byte[] found = new byte[size];
      System.arraycopy(data, from, found, 0, size);
      return found;
    }

    boolean truth() throws Misfit {
      int next = next();
      if (next > 1) throw unreadable("a boolean is neither 0 nor 1");
      return next == 1;
    }

    float single() throws Misfit {
      int from = take(4);
      return Float.intBitsToFloat(data[from] & 255 | (data[from + 1] & 255) << 8 | (data[from + 2] & 255) << 16 | data[from + 3] << 24);
    }

    double twice() throws Misfit {
      int from = take(8);
      long bits = 0L;
      for (int i = 7; i >= 0; i--) bits = bits << 8 | data[from + i] & 255;
      return Double.longBitsToDouble(bits);
    }

    int index(int count, String what) throws Misfit {
      long number = number();
      if (number < 0L || number >= count) throw unreadable("no " + what + " " + number);
      return (int) number;
    }

    UTF8String text() throws Misfit {
      int length = length();
      return Values.text(data, take(length), length);
    }

    /** How many items follow, 0 at the end; unless items may be empty, each of them takes a byte at least. */
    long block(boolean empty) throws Misfit {
      long count = number();
      if (count < 0L) {
        number();
        count = -count;
      }
      if (!empty && (count < 0L || count > left())) throw unreadable("a block claims more items than it can hold");
      return count;
    }
  }

  /** Reads a value of one type. */
  abstract static class Node {
    abstract Object read(Cursor cursor) throws Misfit;
  }

  /** The node of a plan; `shape` is what JSON would be read as, which is where defaults come from. */
  static Node node(JsonNode plan, Json.Shape shape, JsonNode skips) {
    String read = plan.get("read").asText();
    if (read.equals("union")) return new Union(plan, shape, skips);
    Json.Shape item = shape instanceof Json.Optional ? ((Json.Optional) shape).item : shape;
    if (read.equals("record")) return new Record(plan, (Json.Record) item, skips);
    if (read.equals("array")) return new Items(node(plan.get("items"), ((Json.Items) item).item, skips));
    if (read.equals("map")) return new Entries(node(plan.get("items"), ((Json.Entries) item).value, skips));
    if (read.equals("member")) return new Member(node(plan.get("of"), item, skips), (Json.Member) item);
    if (read.equals("decimal")) return new Number(plan, node(plan.get("of"), item, skips));
    return new Leaf(plan);
  }

  static class Leaf extends Node {
    private static final String[] KINDS = {"null", "boolean", "int", "long", "string", "bytes", "fixed", "uuid", "double", "date", "timestamp", "count", "enum", "refuse"};
    private final int kind;
    private final int size;
    private final char of;
    private final long nanos;
    private final long wanted;
    private final ZoneId zone;
    private final String reason;
    private UTF8String[] symbols = new UTF8String[0];

    Leaf(JsonNode plan) {
      String read = plan.get("read").asText();
      int found = -1;
      for (int i = 0; i < KINDS.length; i++) if (KINDS[i].equals(read)) found = i;
      if (found < 0) throw new IllegalStateException("unknown plan " + plan);
      kind = found;
      size = part(plan, "size").asInt();
      of = part(plan, "of").asText(" ").charAt(0);
      nanos = nanos(part(plan, "unit").asText(""));
      wanted = nanos(part(plan, "in").asText(""));
      zone = plan.hasNonNull("zone") ? ZoneId.of(plan.get("zone").asText(), ZoneId.SHORT_IDS) : null;
      reason = part(plan, "reason").asText("");
      JsonNode words = part(plan, "symbols");
      if (kind == 12) {
        symbols = new UTF8String[words.size()];
        for (int i = 0; i < symbols.length; i++) symbols[i] = UTF8String.fromString(item(words, i).asText());
      }
    }

    private static long nanos(String unit) {
      if (unit.equals("s")) return 1000000000L;
      if (unit.equals("ms")) return 1000000L;
      return unit.equals("us") ? 1000L : 1L;
    }

    Object read(Cursor cursor) throws Misfit {
      switch (kind) {
        case 0: return null;
        case 1: return Boolean.valueOf(cursor.truth());
        case 2: return Long.valueOf(cursor.integer());
        case 3: return Long.valueOf(cursor.number());
        case 4: return cursor.text();
        case 5: return cursor.octets(cursor.length());
        case 6: return cursor.octets(size);
        case 7: return uuid(cursor.octets(16));
        case 8: return Double.valueOf(real(cursor));
        case 9: return Integer.valueOf(Values.days(cursor.integer()));
        case 10: return Long.valueOf(Values.instant(whole(cursor), nanos, zone));
        case 11: return Long.valueOf(Values.count(whole(cursor), nanos, wanted));
        case 12: return symbols[cursor.index(symbols.length, "symbol")];
        default: throw new Misfit(reason);
      }
    }

    private long whole(Cursor cursor) throws Misfit { return of == 'i' ? (long) cursor.integer() : cursor.number(); }

    private double real(Cursor cursor) throws Misfit {
      if (of == 'd') return cursor.twice();
      return of == 'f' ? (double) cursor.single() : (double) whole(cursor);
    }

    private static UTF8String uuid(byte[] octets) {
      StringBuilder text = new StringBuilder();
      for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text.append('-');
        text.append(Character.forDigit(octets[i] >> 4 & 15, 16)).append(Character.forDigit(octets[i] & 15, 16));
      }
      return UTF8String.fromString(text.toString());
    }
  }

  static class Union extends Node {
    private final Node[] branches;

    Union(JsonNode plan, Json.Shape shape, JsonNode skips) {
      JsonNode given = plan.get("branches");
      branches = new Node[given.size()];
      for (int i = 0; i < branches.length; i++) branches[i] = node(item(given, i), shape, skips);
    }

    Object read(Cursor cursor) throws Misfit { return branches[cursor.index(branches.length, "branch")].read(cursor); }
  }

  static class Record extends Node {
    private final Json.Record shape;
    private final int[] targets;
    private final Node[] nodes;
    private final Skip[] passed;
    private final int[] defaults;

    Record(JsonNode plan, Json.Record shape, JsonNode skips) {
      this.shape = shape;
      JsonNode fields = plan.get("fields");
      int count = fields.size();
      targets = new int[count];
      nodes = new Node[count];
      passed = new Skip[count];
      for (int i = 0; i < count; i++) {
        targets[i] = item(item(fields, i), 0).asInt();
        JsonNode inner = item(item(fields, i), 1);
        if (targets[i] < 0) passed[i] = skip(inner, skips, new HashMap());
        else nodes[i] = node(inner, shape.shapes[targets[i]], skips);
      }
      JsonNode missing = plan.get("defaults");
      defaults = new int[missing.size()];
      for (int i = 0; i < defaults.length; i++) defaults[i] = item(missing, i).asInt();
    }

    Object read(Cursor cursor) throws Misfit {
      Object[] found = new Object[shape.names.length];
      for (int i = 0; i < targets.length; i++) {
        int target = targets[i];
        if (target < 0) {
          passed[i].over(cursor, 0);
          continue;
        }
        try {
          found[target] = nodes[i].read(cursor);
        } catch (Misfit misfit) {
          throw misfit.inside(shape.names[target]);
        }
      }
      for (int i = 0; i < defaults.length; i++) found[defaults[i]] = shape.defaults[defaults[i]];
      return new GenericInternalRow(found);
    }
  }

  static class Items extends Node {
    private final Node item;

    Items(Node item) { this.item = item; }

    Object read(Cursor cursor) throws Misfit {
      ArrayList found = new ArrayList();
      long count = cursor.block(false);
      while (count > 0L) {
        for (long i = 0L; i < count; i++) {
          try {
            found.add(item.read(cursor));
          } catch (Misfit misfit) {
            throw misfit.inside("[" + found.size() + "]");
          }
        }
        count = cursor.block(false);
      }
      return new GenericArrayData(found.toArray());
    }
  }

  static class Entries extends Node {
    private final Node value;

    Entries(Node value) { this.value = value; }

    Object read(Cursor cursor) throws Misfit {
      LinkedHashMap found = new LinkedHashMap();
      long count = cursor.block(false);
      while (count > 0L) {
        for (long i = 0L; i < count; i++) {
          UTF8String key = cursor.text();
          try {
            found.put(key, value.read(cursor));
          } catch (Misfit misfit) {
            throw misfit.inside("['" + key + "']");
          }
        }
        count = cursor.block(false);
      }
      return new ArrayBasedMapData(new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
    }
  }

  static class Member extends Node {
    private final Node text;
    private final Json.Member shape;

    Member(Node text, Json.Member shape) {
      this.text = text;
      this.shape = shape;
    }

    Object read(Cursor cursor) throws Misfit { return shape.member((UTF8String) text.read(cursor)); }
  }

  static class Number extends Node {
    private final Node octets;
    private final int written;
    private final int precision;
    private final int scale;

    Number(JsonNode plan, Node octets) {
      this.octets = octets;
      written = plan.get("written_scale").asInt();
      precision = plan.get("precision").asInt();
      scale = plan.get("scale").asInt();
    }

    Object read(Cursor cursor) throws Misfit {
      byte[] found = (byte[]) octets.read(cursor);
      if (found.length > LONGEST_NUMBER) throw Values.tooMany(precision, scale);
      BigInteger unscaled = found.length == 0 ? BigInteger.ZERO : new BigInteger(found);
      return Values.decimal(new BigDecimal(unscaled, written), precision, scale);
    }
  }

  /** Passes over what nobody asked for. */
  static class Skip {
    private static final String[] KINDS = {"null", "boolean", "int", "long", "float", "double", "bytes", "fixed", "enum", "union", "array", "map", "fields", "record", "text"};
    private int kind;
    private int size;
    private boolean empty;
    private Skip[] parts = new Skip[0];

    void over(Cursor cursor, int depth) throws Misfit {
      switch (kind) {
        case 0: return;
        case 1: cursor.truth(); return;
        case 2: cursor.integer(); return;
        case 3: cursor.number(); return;
        case 4: cursor.take(4); return;
        case 5: cursor.take(8); return;
        case 6: cursor.take(cursor.length()); return;
        case 7: cursor.take(size); return;
        case 8: cursor.index(size, "symbol"); return;
        case 9: parts[cursor.index(parts.length, "branch")].over(cursor, depth); return;
        case 13: parts[0].over(cursor, depth); return;
        case 14: cursor.text(); return;
        default: within(cursor, depth);
      }
    }

    private void within(Cursor cursor, int depth) throws Misfit {
      if (depth > DEEPEST) throw unreadable("it is nested too deeply");
      if (kind == 12) {
        for (int i = 0; i < parts.length; i++) parts[i].over(cursor, depth + 1);
        return;
      }
      boolean none = empty && kind == 10;
      long count = cursor.block(none);
      while (count != 0L) {
        for (long i = 0L; i < count && !none; i++) {
          if (kind == 11) cursor.take(cursor.length());
          parts[0].over(cursor, depth + 1);
        }
        count = cursor.block(none);
      }
    }
  }

  static Skip skip(JsonNode plan, JsonNode records, Map made) {
    Skip skip = new Skip();
    String read = plan.get("skip").asText();
    for (int i = 0; i < Skip.KINDS.length; i++) if (Skip.KINDS[i].equals(read)) skip.kind = i;
    skip.size = plan.has("symbols") ? plan.get("symbols").asInt() : part(plan, "size").asInt();
    skip.empty = part(plan, "empty").asBoolean();
    if (read.equals("record")) {
      String name = plan.get("name").asText();
      Skip fields = (Skip) made.get(name);
      if (fields == null) {
        fields = new Skip();
        made.put(name, fields);
        Skip whole = skip(records.get(name), records, made);
        fields.kind = whole.kind;
        fields.parts = whole.parts;
      }
      skip.parts = new Skip[] {fields};
    } else if (plan.has("items")) {
      skip.parts = new Skip[] {skip(plan.get("items"), records, made)};
    } else if (plan.has("fields") || plan.has("branches")) {
      JsonNode inner = plan.has("fields") ? plan.get("fields") : plan.get("branches");
      skip.parts = new Skip[inner.size()];
      for (int i = 0; i < skip.parts.length; i++) skip.parts[i] = skip(item(inner, i), records, made);
    }
    return skip;
  }
}
