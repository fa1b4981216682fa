package gearshift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The value of a record and why it has none: decode(value, partition, offset) -> struct(value, why).
 *
 * What bytes mean is decided in Python (schemas/avro/resolution.py, schemas/json/decoding.py); this only does it.
 */
public class Decode implements UnboundFunction, ScalarFunction, Serializable {
  private static final int HEAD = 5;

  private final String name;
  private final String specification;
  private transient Reading reading;

  public Decode(String name, String specification) {
    this.name = name;
    this.specification = specification;
  }

  public String name() { return name; }

  public String description() { return "the value of a record, and why it has none"; }

  public String canonicalName() { return "gearshift." + name; }

  public BoundFunction bind(StructType arguments) { return this; }

  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType, DataTypes.IntegerType, DataTypes.LongType};
  }

  public DataType resultType() { return reading().type; }

  public boolean isResultNullable() { return false; }

  public boolean isDeterministic() { return true; }

  private Reading reading() {
    Reading found = reading;
    if (found == null) {
      try {
        found = new Reading(new ObjectMapper().readTree(specification));
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
      reading = found;
    }
    return found;
  }

  /** Spark calls this by its name, without boxing. */
  public InternalRow invoke(byte[] value, int partition, long offset) {
    try {
      return new GenericInternalRow(new Object[] {reading().read(value, partition, offset), null});
    } catch (Misfit misfit) {
      return new GenericInternalRow(new Object[] {null, UTF8String.fromString(misfit.getMessage())});
    }
  }

  public Object produceResult(InternalRow row) {
    return invoke(row.isNullAt(0) ? null : row.getBinary(0), row.getInt(1), row.getLong(2));
  }

  private static class Reading {
    final DataType type;
    private final String subject;
    private final Map writers = new HashMap();
    private final Set refused = new HashSet();
    private final long[] askedUntil;
    private final long highest;
    private final boolean asks;

    Reading(JsonNode specification) {
      type = DataType.fromJson(specification.get("type").toString());
      subject = specification.get("subject").asText();
      Json.Record shape = (Json.Record) Json.reader(specification.get("shape"));
      Iterator plans = specification.get("writers").fields();
      while (plans.hasNext()) {
        Map.Entry plan = (Map.Entry) plans.next();
        writers.put(Integer.valueOf((String) plan.getKey()), reader((JsonNode) plan.getValue(), shape));
      }
      Iterator ids = specification.get("refused").iterator();
      while (ids.hasNext()) refused.add(Integer.valueOf(((JsonNode) ids.next()).asInt()));
      JsonNode asked = specification.get("asked_until");
      askedUntil = new long[asked.size()];
      for (int i = 0; i < askedUntil.length; i++) askedUntil[i] = Avro.item(asked, i).asLong();
      highest = specification.get("highest").asLong();
      asks = specification.get("asks").asBoolean();
    }

    private static Payload reader(JsonNode plan, Json.Record shape) {
      if (plan.has("refuse")) return new Refusal(plan.get("refuse").asText());
      return plan.get("read").asText().equals("json") ? (Payload) new JsonPayload(shape) : (Payload) new AvroPayload(plan, shape);
    }

    Object read(byte[] value, int partition, long offset) throws Misfit {
      if (value == null) throw new Misfit("the record has no value");
      if (value.length < HEAD)
        throw new Misfit("the value has " + value.length + " bytes, fewer than the 5 before a payload");
      if (value[0] != 0) throw new Misfit("the value begins with byte " + (value[0] & 255) + ", not 0");
      int id = (value[1] & 255) << 24 | (value[2] & 255) << 16 | (value[3] & 255) << 8 | value[4] & 255;
      Payload payload = (Payload) writers.get(Integer.valueOf(id));
      if (payload != null) return payload.read(value);
      if (mayBeNew(id, value, partition, offset)) throw new IllegalStateException("GEARSHIFT_UNKNOWN_SCHEMA_ID=" + id + ";");
      throw new Misfit("schema id " + (id & 4294967295L) + " was not registered for " + subject);
    }

    /** Registries count ids upwards over all subjects: an id up to a little above the highest known may be a new version's. */
    private boolean mayBeNew(int id, byte[] value, int partition, long offset) {
      if (!asks || value.length == HEAD || id < 1 || id > highest) return false;
      if (refused.contains(Integer.valueOf(id))) return false;
      return offset >= (partition < askedUntil.length ? askedUntil[partition] : 0L);
    }
  }

  private static abstract class Payload {
    abstract Object read(byte[] value) throws Misfit;
  }

  private static class Refusal extends Payload {
    private final String reason;

    Refusal(String reason) { this.reason = reason; }

    Object read(byte[] value) throws Misfit { throw new Misfit(reason); }
  }

  private static class AvroPayload extends Payload {
    private final Avro.Node record;

    AvroPayload(JsonNode plan, Json.Record shape) { record = Avro.node(plan, shape, plan.get("skips")); }

    Object read(byte[] value) throws Misfit {
      Avro.Cursor cursor = new Avro.Cursor(value, HEAD);
      Object found = record.read(cursor);
      if (cursor.left() > 0) throw new Misfit(cursor.left() + " bytes are left after the last field");
      return found;
    }
  }

  private static class JsonPayload extends Payload {
    private final Json.Record shape;

    JsonPayload(Json.Record shape) { this.shape = shape; }

    Object read(byte[] value) throws Misfit { return shape.read(Json.parse(value, HEAD)); }
  }
}
