package gearshift;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * JSON as text by column: texts(bytes) -> structs, arrays and maps of texts, each number with the digits it is written with.
 *
 * Debezium's envelopes are read this way, since a value can only be read by the rule of its own column
 * (pipelines/records/debezium_values.py); Spark's from_json makes a double of every number with a point or an exponent.
 */
public class Texts implements UnboundFunction, ScalarFunction, Serializable {
  private static final int LARGEST = 16 << 20;
  private static final int DEEPEST = 100;
  private static final String CORRUPT = "_corrupt";
  private static final UTF8String SCHEMA = UTF8String.fromString("schema");
  private static final UTF8String PAYLOAD = UTF8String.fromString("payload");
  private static final UTF8String BEFORE = UTF8String.fromString("before");
  private static final UTF8String AFTER = UTF8String.fromString("after");
  private static final UTF8String STRUCT = UTF8String.fromString("struct");
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

  private final String name;
  private final String type;
  private transient DataType result;
  private transient Node root;

  public Texts(String name, String type) {
    this.name = name;
    this.type = type;
  }

  public String name() { return name; }

  public String description() { return "JSON as text by column"; }

  public String canonicalName() { return "gearshift." + name; }

  public BoundFunction bind(StructType arguments) { return this; }

  public DataType[] inputTypes() { return new DataType[] {DataTypes.BinaryType}; }

  public DataType resultType() {
    if (result == null) result = DataType.fromJson(type);
    return result;
  }

  public boolean isResultNullable() { return true; }

  public boolean isDeterministic() { return true; }

  /** Spark calls this by its name. What is no such JSON is null, or a struct that says why if it has a place for it. */
  public Object invoke(byte[] value) {
    if (value == null) return null;
    if (root == null) root = node(resultType());
    try {
      return new Parse(value).whole(root);
    } catch (Misfit misfit) {
      return root instanceof Struct ? ((Struct) root).corrupt(misfit.getMessage()) : null;
    }
  }

  public Object produceResult(InternalRow row) { return invoke(row.isNullAt(0) ? null : row.getBinary(0)); }

  private static Node node(DataType type) {
    if (type instanceof StructType) return new Struct((StructType) type);
    if (type instanceof ArrayType) return new Items(node(((ArrayType) type).elementType()));
    if (type instanceof MapType) return new Entries(node(((MapType) type).valueType()));
    return new Text();
  }

  /** What is wanted of a value. */
  private abstract static class Node {
    /** What the parser is at, which is not null. */
    abstract Object read(Parse parse, JsonToken token) throws IOException, Misfit;
  }

  private static class Text extends Node {
    Object read(Parse parse, JsonToken token) throws IOException, Misfit {
      return UTF8String.fromString(token == JsonToken.VALUE_STRING ? parse.text() : parse.json(token));
    }
  }

  private static class Struct extends Node {
    private final Map places = new HashMap();
    private final String[] names;
    private final Node[] nodes;

    Struct(StructType type) {
      StructField[] fields = type.fields();
      names = new String[fields.length];
      nodes = new Node[fields.length];
      for (int i = 0; i < fields.length; i++) {
        names[i] = fields[i].name();
        nodes[i] = node(fields[i].dataType());
        places.put(names[i], Integer.valueOf(i));
      }
    }

    Object read(Parse parse, JsonToken token) throws IOException, Misfit {
      if (token != JsonToken.START_OBJECT) return parse.skip();
      Object[] found = new Object[nodes.length];
      List listed = parse.listed;
      parse.listed = null;
      for (String name = parse.parser.nextFieldName(); name != null; name = parse.parser.nextFieldName()) {
        JsonToken next = parse.parser.nextToken();
        if (listed != null) listed.add(UTF8String.fromString(name));
        Integer place = (Integer) places.get(name);
        if (place == null) parse.skip();
        else if (next == JsonToken.VALUE_NULL) found[place.intValue()] = null;
        else found[place.intValue()] = field(parse, name, nodes[place.intValue()], next);
      }
      return new GenericInternalRow(found);
    }

    private static Object field(Parse parse, String name, Node node, JsonToken token) throws IOException, Misfit {
      boolean row = node instanceof Struct && (name.equals("before") || name.equals("after") || name.equals("payload"));
      if (row && token != JsonToken.START_OBJECT) throw new Misfit("is not an object").inside(name);
      if (row && name.equals("after")) {
        parse.names = new ArrayList();
        parse.listed = parse.names;
      }
      return node.read(parse, token);
    }

    boolean has(String name) { return places.containsKey(name); }

    private Object at(GenericInternalRow row, String name) {
      Integer place = (Integer) places.get(name);
      return place == null ? null : row.get(place.intValue(), (DataType) null);
    }

    private Struct of(String name) {
      Node node = nodes[((Integer) places.get(name)).intValue()];
      return (Struct) (node instanceof Items ? ((Items) node).item : node);
    }

    /** `{"schema": …, "payload": …}` is Connect's wrapping only if nothing else is in it, as schemas/debezium/events.py says. */
    void unwrap(GenericInternalRow row, List given) throws Misfit {
      boolean wrapped = given.contains(SCHEMA) && given.contains(PAYLOAD);
      for (int i = 0; wrapped && i < given.size(); i++)
        wrapped = SCHEMA.equals(given.get(i)) || PAYLOAD.equals(given.get(i));
      if (!wrapped) {
        with(row, "payload", null);
        with(row, "schema", null);
      } else if (at(row, "schema") != null) of("schema").describe((GenericInternalRow) at(row, "schema"));
    }

    /** Refuses a Connect schema as `require_rows` of schemas/debezium/values.py does. */
    private void describe(GenericInternalRow row) throws Misfit {
      Object fields = at(row, "fields");
      if (!STRUCT.equals(at(row, "type")) || fields == null) throw new Misfit("has an invalid Connect schema");
      Struct field = of("fields");
      Object[] given = ((GenericArrayData) fields).array();
      Set names = new HashSet();
      for (int i = 0; i < given.length; i++) {
        GenericInternalRow each = (GenericInternalRow) given[i];
        Object name = each == null ? null : field.at(each, "field");
        if (name == null || !names.add(name)) throw new Misfit("has an invalid Connect schema");
        if (field.has("fields") && (BEFORE.equals(name) || AFTER.equals(name))) field.describe(each);
      }
    }

    Object with(Object row, String name, Object value) {
      Integer place = (Integer) places.get(name);
      if (place != null) ((GenericInternalRow) row).update(place.intValue(), value);
      return row;
    }

    Object corrupt(String why) {
      if (!places.containsKey(CORRUPT)) return null;
      return with(new GenericInternalRow(new Object[nodes.length]), CORRUPT, UTF8String.fromString(why));
    }
  }

  private static class Items extends Node {
    final Node item;

    Items(Node item) { this.item = item; }

    Object read(Parse parse, JsonToken token) throws IOException, Misfit {
      if (token != JsonToken.START_ARRAY) return parse.skip();
      ArrayList found = new ArrayList();
      for (JsonToken next = parse.parser.nextToken(); next != JsonToken.END_ARRAY; next = parse.parser.nextToken())
        found.add(next == JsonToken.VALUE_NULL ? null : item.read(parse, next));
      return new GenericArrayData(found.toArray());
    }
  }

  private static class Entries extends Node {
    private final Node value;

    Entries(Node value) { this.value = value; }

    Object read(Parse parse, JsonToken token) throws IOException, Misfit {
      if (token != JsonToken.START_OBJECT) return parse.skip();
      LinkedHashMap found = new LinkedHashMap();
      for (String name = parse.parser.nextFieldName(); name != null; name = parse.parser.nextFieldName()) {
        JsonToken next = parse.parser.nextToken();
        found.put(UTF8String.fromString(name), next == JsonToken.VALUE_NULL ? null : value.read(parse, next));
      }
      return new ArrayBasedMapData(
          new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
    }
  }

  /** One value on its way. */
  private static class Parse {
    final JsonParser parser;
    /** The names of the columns of `after`, whether wanted or not. */
    List names;
    /** Where the struct that begins next lists its names. */
    List listed;
    private final boolean escapes;

    Parse(byte[] value) throws Misfit {
      if (value.length > LARGEST) throw new Misfit("is " + value.length + " bytes long, and " + LARGEST + " are read at most");
      UTF8String written = UTF8String.fromBytes(value);
      if (!written.isValid()) throw Json.unreadable("it is not valid UTF-8");
      String text = written.toString();
      escapes = text.indexOf("\\u") >= 0;
      if (escapes) Json.hexadecimal(text);
      try {
        parser = FACTORY.createParser(text);
      } catch (IOException error) {
        throw Json.unreadable(Json.firstLine(error));
      }
    }

    Object whole(Node root) throws Misfit {
      try {
        JsonToken first = parser.nextToken();
        if (first == null) throw Json.unreadable("it is empty");
        boolean fits = first == (root instanceof Items ? JsonToken.START_ARRAY : JsonToken.START_OBJECT);
        if (!fits) throw new Misfit("is not what it is read as");
        List given = root instanceof Struct && ((Struct) root).has("payload") ? new ArrayList() : null;
        listed = given;
        Object found = root.read(this, first);
        if (parser.nextToken() != null) throw Json.unreadable("something follows the value");
        if (given != null) ((Struct) root).unwrap((GenericInternalRow) found, given);
        if (names == null || !(root instanceof Struct)) return found;
        return ((Struct) root).with(found, "names", new GenericArrayData(names.toArray()));
      } catch (IOException error) {
        throw Json.unreadable(Json.firstLine(error));
      }
    }

    Object skip() throws IOException {
      parser.skipChildren();
      return null;
    }

    String text() throws IOException, Misfit { return escapes ? Json.unicode(parser.getText()) : parser.getText(); }

    /** The value as compact JSON, as schemas/debezium/values.py writes it; of two with one name the last counts. */
    String json(JsonToken token) throws IOException, Misfit {
      switch (token.id()) {
        case 1: { // the beginning of an object
          LinkedHashMap found = new LinkedHashMap();
          for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName())
            found.put(name, json(parser.nextToken()));
          StringBuilder written = new StringBuilder("{");
          Iterator entries = found.entrySet().iterator();
          while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            if (written.length() > 1) written.append(',');
            quote(written, (String) entry.getKey());
            written.append(':').append((String) entry.getValue());
          }
          return written.append('}').toString();
        }
        case 3: { // the beginning of an array
          StringBuilder written = new StringBuilder("[");
          for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken()) {
            if (written.length() > 1) written.append(',');
            written.append(json(next));
          }
          return written.append(']').toString();
        }
        case 6: {
          StringBuilder written = new StringBuilder();
          quote(written, text());
          return written.toString();
        }
        case 7: return Json.whole(parser.getText());
        case 8: return parser.getText();
        case 9: return "true";
        case 10: return "false";
        case 11: return "null";
        default: throw Json.unreadable("unexpected " + token);
      }
    }

    private void quote(StringBuilder written, String text) throws Misfit {
      if (escapes) Json.unicode(text);
      written.append('"');
      for (int i = 0; i < text.length(); i++) {
        char c = text.charAt(i);
        int short_ = "\"\\\n\r\t\b\f".indexOf(c);
        if (short_ >= 0) written.append('\\').append("\"\\nrtbf".charAt(short_));
        else if (c < ' ') written.append(c < 16 ? "\\u000" : "\\u00").append(Integer.toHexString(c));
        else written.append(c);
      }
      written.append('"');
    }
  }
}
