package gearshift;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog in which Spark finds our functions; each is defined by the Python side, under a name of its own. */
public class Functions implements FunctionCatalog {
  private static final Map DEFINED = new ConcurrentHashMap();
  private static final String ITEMS = "{\"type\":\"array\",\"elementType\":\"string\",\"containsNull\":true}";
  private String name;

  public static void define(String name, String specification) { DEFINED.put(name, specification); }

  public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; }

  public String name() { return name; }

  public Identifier[] listFunctions(String[] namespace) { return new Identifier[0]; }

  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    String specification = (String) DEFINED.get(identifier.name());
    if (identifier.name().startsWith("texts_") && specification != null) return new Texts(identifier.name(), specification);
    if (identifier.name().startsWith("whole_") && specification != null) return new Whole(identifier.name(), specification);
    if (identifier.name().equals("items")) return new Texts(identifier.name(), ITEMS);
    if (specification == null) throw new NoSuchFunctionException(identifier);
    return new Decode(identifier.name(), specification);
  }
}
