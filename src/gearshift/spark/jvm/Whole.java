package gearshift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Whether bytes are exactly one value of a writer's Avro schema: whole(bytes) -> boolean, as schemas/avro/bytes.py says it.
 *
 * Spark's from_avro also takes invalid text, numbers out of range and what is left after the last field.
 */
public class Whole implements UnboundFunction, ScalarFunction, Serializable {
  private final String name;
  private final String plan;
  private transient Avro.Skip skip;

  public Whole(String name, String plan) {
    this.name = name;
    this.plan = plan;
  }

  public String name() { return name; }

  public String description() { return "whether bytes are one Avro value"; }

  public String canonicalName() { return "gearshift." + name; }

  public BoundFunction bind(StructType arguments) { return this; }

  public DataType[] inputTypes() { return new DataType[] {DataTypes.BinaryType}; }

  public DataType resultType() { return DataTypes.BooleanType; }

  public boolean isResultNullable() { return false; }

  public boolean isDeterministic() { return true; }

  private Avro.Skip skip() {
    Avro.Skip found = skip;
    if (found == null) {
      try {
        JsonNode read = new ObjectMapper().readTree(plan);
        found = Avro.skip(read, read.get("skips"), new HashMap());
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
      skip = found;
    }
    return found;
  }

  /** Spark calls this by its name, without boxing. */
  public boolean invoke(byte[] value) {
    if (value == null) return false;
    Avro.Cursor cursor = new Avro.Cursor(value, 0);
    try {
      skip().over(cursor, 0);
    } catch (Misfit misfit) {
      return false;
    }
    return cursor.left() == 0;
  }

  public Object produceResult(InternalRow row) { return Boolean.valueOf(invoke(row.isNullAt(0) ? null : row.getBinary(0))); }
}
