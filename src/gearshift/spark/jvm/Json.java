package gearshift;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads JSON as schemas/json/decoding.py does: what the declared type allows, nothing guessed, cut or rounded. */
class Json {
  private static final int DEEPEST = 100;
  private static final int LONGEST_INTEGER = 4300;
  private static final int LONGEST_DECIMAL = 1000;
  private static final JsonFactory FACTORY =
      ((JsonFactoryBuilder) new JsonFactoryBuilder()
              .streamReadConstraints(
                  StreamReadConstraints.builder()
                      .maxNestingDepth(DEEPEST)
                      .maxNumberLength(Integer.MAX_VALUE)
                      .maxStringLength(Integer.MAX_VALUE)
                      .maxNameLength(Integer.MAX_VALUE)
                      .build()))
          .configure(JsonFactory.Feature.INTERN_FIELD_NAMES, false)
          .configure(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES, false)
          .build();
  private static final Object NULL = new Object();

  static Misfit unreadable(String reason) { return new Misfit("not readable as JSON: " + reason); }

  /** A number as it is written. */
  static class Literal {
    final String text;
    final boolean whole;

    Literal(String text, boolean whole) {
      this.text = text;
      this.whole = whole;
    }
  }

  /** Maps, lists, texts, truths, literals and NULL. */
  static Object parse(byte[] data, int from) throws Misfit {
    UTF8String written = UTF8String.fromBytes(data, from, data.length - from);
    if (!written.isValid()) throw unreadable("it is not valid UTF-8");
    String text = written.toString();
    boolean escapes = text.indexOf("\\u") >= 0;
    if (escapes) hexadecimal(text);
    try {
      JsonParser parser = FACTORY.createParser(text);
      JsonToken first = parser.nextToken();
      if (first == null) throw unreadable("it is empty");
      Object found = value(parser, first, escapes);
      if (parser.nextToken() != null) throw unreadable("something follows the value");
      return found;
    } catch (IOException error) {
      throw unreadable(firstLine(error));
    }
  }

  static String firstLine(IOException error) {
    String message = String.valueOf(error.getMessage());
    int end = message.indexOf('\n');
    return end < 0 ? message : message.substring(0, end);
  }

  private static Object value(JsonParser parser, JsonToken token, boolean escapes) throws IOException, Misfit {
    switch (token.id()) {
      case 1: { // the beginning of an object
        LinkedHashMap found = new LinkedHashMap();
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
          if (escapes) unicode(name);
          if (found.put(name, value(parser, parser.nextToken(), escapes)) != null)
            throw unreadable("a name occurs twice");
        }
        return found;
      }
      case 3: { // the beginning of an array
        ArrayList found = new ArrayList();
        for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken())
          found.add(value(parser, next, escapes));
        return found;
      }
      case 6: return escapes ? unicode(parser.getText()) : parser.getText();
      case 7: return new Literal(whole(parser.getText()), true);
      case 8: return new Literal(parser.getText(), false);
      case 9: return Boolean.TRUE;
      case 10: return Boolean.FALSE;
      case 11: return NULL;
      default: throw unreadable("unexpected " + token);
    }
  }

  /** An integer as Python writes it, which reads no longer ones. */
  static String whole(String text) throws Misfit {
    if (text.length() > LONGEST_INTEGER && text.length() - (text.charAt(0) == '-' ? 1 : 0) > LONGEST_INTEGER)
      throw unreadable("a number has more than " + LONGEST_INTEGER + " digits");
    return text.equals("-0") ? "0" : text;
  }

  /** Jackson takes a digit of another script for a letter of ours. */
  static void hexadecimal(String text) throws Misfit {
    for (int i = text.indexOf('\\'); i >= 0 && i + 1 < text.length(); i = text.indexOf('\\', i + 2)) {
      if (text.charAt(i + 1) != 'u') continue;
      for (int at = i + 2; at < i + 6; at++)
        if (at >= text.length() || text.charAt(at) > 'f' || Character.digit(text.charAt(at), 16) < 0)
          throw unreadable("an escape without four digits");
    }
  }

  /** Only an escape can say half of a surrogate pair. */
  static String unicode(String text) throws Misfit {
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (!Character.isSurrogate(c)) continue;
      boolean paired = Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1));
      if (!paired) throw new Misfit("is not valid Unicode text");
      i++;
    }
    return text;
  }

  static Misfit isA(Object datum, String wanted) {
    String kind = "str";
    if (datum == NULL) kind = "NoneType";
    else if (datum instanceof Map) kind = "dict";
    else if (datum instanceof List) kind = "list";
    else if (datum instanceof Boolean) kind = "bool";
    else if (datum instanceof Literal) kind = ((Literal) datum).whole ? "int" : "float";
    return new Misfit("is " + kind + ", not " + wanted);
  }

  /** Turns what was parsed into what Spark holds. */
  abstract static class Shape {
    abstract Object read(Object datum) throws Misfit;
  }

  static Shape reader(JsonNode shape) {
    String kind = shape.get("kind").asText();
    if (kind.equals("record")) return new Record(shape);
    if (kind.equals("optional")) return new Optional(reader(shape.get("item")));
    if (kind.equals("list")) return new Items(reader(shape.get("item")));
    if (kind.equals("map")) return new Entries(reader(shape.get("item")));
    if (kind.equals("enum")) return new Member(shape);
    if (kind.equals("decimal")) return new Number(shape);
    return new Scalar(kind);
  }

  static class Optional extends Shape {
    final Shape item;

    Optional(Shape item) { this.item = item; }

    Object read(Object datum) throws Misfit { return datum == NULL ? null : item.read(datum); }
  }

  static class Items extends Shape {
    final Shape item;

    Items(Shape item) { this.item = item; }

    Object read(Object datum) throws Misfit {
      if (!(datum instanceof List)) throw isA(datum, "a list");
      List given = (List) datum;
      Object[] found = new Object[given.size()];
      for (int i = 0; i < found.length; i++) {
        try {
          found[i] = item.read(given.get(i));
        } catch (Misfit misfit) {
          throw misfit.inside("[" + i + "]");
        }
      }
      return new GenericArrayData(found);
    }
  }

  static class Entries extends Shape {
    final Shape value;

    Entries(Shape value) { this.value = value; }

    Object read(Object datum) throws Misfit {
      if (!(datum instanceof Map)) throw isA(datum, "an object");
      Map given = (Map) datum;
      Object[] keys = new Object[given.size()];
      Object[] values = new Object[keys.length];
      Iterator entries = given.entrySet().iterator();
      for (int i = 0; i < keys.length; i++) {
        Map.Entry entry = (Map.Entry) entries.next();
        keys[i] = UTF8String.fromString((String) entry.getKey());
        try {
          values[i] = value.read(entry.getValue());
        } catch (Misfit misfit) {
          throw misfit.inside("['" + entry.getKey() + "']");
        }
      }
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
    }
  }

  static class Record extends Shape {
    final String[] names;
    final Shape[] shapes;
    final Object[] defaults;
    private final boolean[] hasDefault;
    private final String[][] aliases;

    Record(JsonNode shape) {
      JsonNode fields = shape.get("fields");
      int count = fields.size();
      names = new String[count];
      shapes = new Shape[count];
      defaults = new Object[count];
      hasDefault = new boolean[count];
      aliases = new String[count][];
      for (int i = 0; i < count; i++) {
        JsonNode field = Avro.item(fields, i);
        names[i] = field.get("name").asText();
        shapes[i] = reader(field.get("shape"));
        aliases[i] = new String[field.get("aliases").size()];
        for (int a = 0; a < aliases[i].length; a++) aliases[i][a] = Avro.item(field.get("aliases"), a).asText();
        hasDefault[i] = field.has("default");
        if (!hasDefault[i]) continue;
        try {
          byte[] text = field.get("default").toString().getBytes("UTF-8");
          defaults[i] = shapes[i].read(parse(text, 0));
        } catch (Misfit misfit) {
          throw new IllegalStateException(misfit);
        } catch (IOException error) {
          throw new IllegalStateException(error);
        }
      }
    }

    Object read(Object datum) throws Misfit {
      if (!(datum instanceof Map)) throw isA(datum, "an object");
      Map given = (Map) datum;
      Object[] found = new Object[names.length];
      for (int i = 0; i < found.length; i++) {
        Object item = given.get(names[i]);
        for (int a = 0; item == null && a < aliases[i].length; a++) item = given.get(aliases[i][a]);
        if (item == null) {
          if (!hasDefault[i]) throw new Misfit("is missing").inside(names[i]);
          found[i] = defaults[i];
          continue;
        }
        try {
          found[i] = shapes[i].read(item);
        } catch (Misfit misfit) {
          throw misfit.inside(names[i]);
        }
      }
      return new GenericInternalRow(found);
    }
  }

  static class Member extends Shape {
    private final String name;
    private final Set words = new HashSet();
    private final List listed = new ArrayList();

    Member(JsonNode shape) {
      name = shape.get("name").asText();
      Iterator members = shape.get("members").iterator();
      while (members.hasNext()) {
        String word = ((JsonNode) members.next()).asText();
        words.add(UTF8String.fromString(word));
        listed.add(word);
      }
    }

    Object read(Object datum) throws Misfit {
      if (!(datum instanceof String)) throw isA(datum, "a string");
      return member(UTF8String.fromString((String) datum));
    }

    UTF8String member(UTF8String word) throws Misfit {
      if (!words.contains(word)) {
        String list = listed.toString();
        throw new Misfit("'" + word + "' is not a value of " + name + ": " + list.substring(1, list.length() - 1));
      }
      return word;
    }
  }

  static class Number extends Shape {
    private static final Pattern WRITTEN = Pattern.compile("[+-]?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,9})?");
    private final int precision;
    private final int scale;

    Number(JsonNode shape) {
      precision = shape.get("precision").asInt();
      scale = shape.get("scale").asInt();
    }

    Object read(Object datum) throws Misfit {
      if (!(datum instanceof String)) throw isA(datum, "a string");
      String text = (String) datum;
      if (text.length() > LONGEST_DECIMAL || !WRITTEN.matcher(text).matches()) throw new Misfit("is not a decimal number");
      return Values.decimal(new BigDecimal(text), precision, scale);
    }
  }

  static class Scalar extends Shape {
    private static final String[] KINDS = {"string", "long", "double", "boolean", "bytes", "timestamp", "date"};
    private static final Pattern BASE64 = Pattern.compile("[A-Za-z0-9+/]*={0,2}");
    private static final Pattern DAY = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");
    private static final Pattern INSTANT = Pattern.compile(
        "([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]((?:[01][0-9]|2[0-3])):([0-5][0-9]):([0-5][0-9])(\\.[0-9]+)?([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])");
    private static final double LARGEST_EXACT = 9007199254740992.0;
    private final int kind;

    Scalar(String name) {
      int found = -1;
      for (int i = 0; i < KINDS.length; i++) if (KINDS[i].equals(name)) found = i;
      if (found < 0) throw new IllegalStateException("unknown shape " + name);
      kind = found;
    }

    Object read(Object datum) throws Misfit {
      if (kind == 1) return whole(datum);
      if (kind == 2) return real(datum);
      if (kind == 3) {
        if (datum instanceof Boolean) return datum;
        throw isA(datum, "a boolean");
      }
      if (!(datum instanceof String)) throw isA(datum, "a string");
      String text = (String) datum;
      switch (kind) {
        case 0: return UTF8String.fromString(text);
        case 4:
          if (text.length() % 4 != 0 || !BASE64.matcher(text).matches()) throw new Misfit("is not base64");
          return Base64.getDecoder().decode(text);
        case 5: return Long.valueOf(instant(text));
        default: return Integer.valueOf(Values.days(day(text, "is not a date such as 2026-01-31", "is not a date that exists")));
      }
    }

    private static Object whole(Object datum) throws Misfit {
      if (!(datum instanceof Literal)) throw isA(datum, "an integer");
      Literal literal = (Literal) datum;
      if (!literal.whole) {
        double number = Double.parseDouble(literal.text);
        if (number == Math.rint(number) && Math.abs(number) < LARGEST_EXACT) return Long.valueOf((long) number);
        throw isA(datum, "an integer");
      }
      String text = literal.text;
      if (text.length() < 19) return Long.valueOf(Long.parseLong(text));
      BigInteger number = new BigInteger(text);
      if (number.bitLength() > 63) throw new Misfit("does not fit in 64 bits");
      return Long.valueOf(number.longValue());
    }

    private static Object real(Object datum) throws Misfit {
      if (!(datum instanceof Literal)) throw isA(datum, "a number");
      Literal literal = (Literal) datum;
      double number;
      if (!literal.whole) number = Double.parseDouble(literal.text);
      else if (literal.text.length() < 19) number = (double) Long.parseLong(literal.text);
      else number = new BigInteger(literal.text).doubleValue();
      if (Double.isInfinite(number)) throw new Misfit(literal.whole ? "is too large for a float" : "is not a finite number");
      return Double.valueOf(number);
    }

    private static long day(String text, String unlike, String never) throws Misfit {
      if (!DAY.matcher(text).matches()) throw new Misfit(unlike);
      int year = Integer.parseInt(text.substring(0, 4));
      try {
        if (year == 0) throw new Misfit(never);
        return LocalDate.of(year, Integer.parseInt(text.substring(5, 7)), Integer.parseInt(text.substring(8, 10))).toEpochDay();
      } catch (DateTimeException error) {
        throw new Misfit(never);
      }
    }

    private static long instant(String text) throws Misfit {
      Matcher found = INSTANT.matcher(text);
      if (!found.matches()) throw new Misfit("is not an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z");
      long seconds = day(found.group(1), "", "is not a time that exists") * 86400L
          + Integer.parseInt(found.group(2)) * 3600L + Integer.parseInt(found.group(3)) * 60L + Integer.parseInt(found.group(4));
      long micros = 0L;
      String fraction = found.group(5);
      if (fraction != null) {
        String digits = fraction.length() > 7 ? fraction.substring(1, 7) : (fraction.substring(1) + "00000").substring(0, 6);
        micros = Long.parseLong(digits);
      }
      String offset = found.group(6);
      if (offset.length() > 1) {
        long shift = Integer.parseInt(offset.substring(1, 3)) * 3600L + Integer.parseInt(offset.substring(4, 6)) * 60L;
        seconds += offset.charAt(0) == '-' ? shift : -shift;
      }
      return Values.micros(seconds * 1000000L + micros);
    }
  }
}
