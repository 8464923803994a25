package streamkeeper.inspection;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTime;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Greatest;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Least;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * Writes a logical plan as one JSON text with every constructor argument of every node, or a mark for an unknown class.
 *
 * <p>The text is {"nodes": [{"k": kind, "n": class, "w": place in Python code, if known, "f": [[argument,
 * value]...]}...], "root": number}. A reference to a node is {"n": number}. Kinds: p plan, e expression, o other case
 * class. Values: null (also for None), booleans, integers, texts, lists, and {"d": floating point number}, {"b":
 * bytes}, {"x": number, decimal, interval or enumerated value as text}, {"t": type}, {"id": expression id}, {"s":
 * sorted set}, {"m": sorted map}, {"r": digest of rows}, {"c": class of an object without further content}, {"f":
 * number of a Python function of the plan}, {"u": unknown class}.
 *
 * <p>Janino compiles this code. It has no lambdas, and no generics that Janino cannot infer.
 */
public final class PlanWalker implements Runnable {
  private static final char[] HEX = "0123456789abcdef".toCharArray();

  /** The stack size of the thread: some expressions are too deep for the default. Unused stack takes no memory. */
  private static final long STACK_BYTES = 1L << 28;

  private final List nodes = new ArrayList();
  private final IdentityHashMap above = new IdentityHashMap();
  private final IdentityHashMap functions = new IdentityHashMap();

  private Object plan;
  private RuleExecutor optimizer;
  private Object result;
  private Throwable thrown;

  /** Makes an object for py4j, which calls methods of objects. */
  public PlanWalker() {}

  /** The plan as JSON. */
  public static String walk(Object plan) throws Exception {
    return (String) onDeepStack(plan, null);
  }

  /** An analyzed plan, optimized like the plan of a micro-batch, but without a current time. */
  public static LogicalPlan optimized(Object plan, Object optimizer) throws Exception {
    return (LogicalPlan) onDeepStack(plan, (RuleExecutor) optimizer);
  }

  /** Runs the work in a new thread, which inherits Spark's session. */
  private static Object onDeepStack(Object plan, RuleExecutor optimizer) throws Exception {
    PlanWalker walker = new PlanWalker();
    walker.plan = plan;
    walker.optimizer = optimizer;
    Thread thread = new Thread(null, walker, "streamkeeper-plan-walker", STACK_BYTES);
    thread.start();
    thread.join();
    if (walker.thrown instanceof Error) throw (Error) walker.thrown;
    if (walker.thrown != null) throw (Exception) walker.thrown;
    return walker.result;
  }

  public void run() {
    try {
      result = optimizer == null ? (Object) text() : (Object) optimizer.execute(withoutTime(plan));
    } catch (Throwable found) {
      thrown = found;
    }
  }

  private String text() throws Exception {
    int root = node((scala.Product) plan);
    StringBuilder text = new StringBuilder("{\"nodes\":[");
    for (int i = 0; i < nodes.size(); i++) {
      if (i > 0) text.append(',');
      text.append((String) nodes.get(i));
    }
    return text.append("],\"root\":").append(root).append('}').toString();
  }

  /** The plan with every leaf for the current time in the form that a micro-batch has, but without a value. */
  public static LogicalPlan withoutTime(Object plan) {
    return (LogicalPlan) ((LogicalPlan) plan).transformAllExpressionsWithSubqueries(new Timeless());
  }

  /** Replaces the same leaves as MicroBatchExecution, which does so before the optimizer runs. */
  public static final class Timeless extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object found) {
      return timeless(found) != null;
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      Object replaced = timeless(found);
      return replaced != null ? replaced : otherwise.apply(found);
    }

    private static Object timeless(Object found) {
      if (found instanceof CurrentTimestampLike) {
        return at(((Expression) found).dataType(), new scala.Some("UTC"));
      } else if (found instanceof LocalTimestamp) {
        return at(((Expression) found).dataType(), ((LocalTimestamp) found).timeZoneId());
      } else if (found instanceof CurrentDate) {
        return at(((Expression) found).dataType(), ((CurrentDate) found).timeZoneId());
      } else if (found instanceof CurrentTime) {
        return at(((Expression) found).dataType(), new scala.Some("UTC"));
      }
      return null;
    }

    private static Object at(DataType type, scala.Option zone) {
      return new CurrentBatchTimestamp(0L, type, zone);
    }
  }

  private int node(scala.Product found) throws Exception {
    int number = nodes.size();
    nodes.add(null);
    above.put(found, found);
    StringBuilder text = new StringBuilder("{\"k\":\"");
    text.append(found instanceof LogicalPlan ? 'p' : found instanceof Expression ? 'e' : 'o');
    text.append("\",\"n\":");
    quote(text, simpleName(found.getClass()));
    if (found instanceof Expression) written(text, (Expression) found);
    text.append(",\"f\":[");
    for (int i = 0; i < found.productArity(); i++) {
      if (i > 0) text.append(',');
      text.append('[');
      quote(text, found.productElementName(i));
      text.append(',');
      argument(text, found, found.productElementName(i), found.productElement(i));
      text.append(']');
    }
    // For these two classes, Product does not include the second argument list.
    if (found instanceof Alias || found instanceof AttributeReference) {
      text.append(",[\"exprId\",");
      value(text, ((NamedExpression) found).exprId());
      text.append(']');
    }
    // The type decides whether the order of the arguments counts, and the type follows from the arguments.
    if (found instanceof Greatest || found instanceof Least) {
      text.append(",[\"dataType\",");
      value(text, ((Expression) found).dataType());
      text.append(']');
    }
    nodes.set(number, text.append("]}").toString());
    above.remove(found);
    return number;
  }

  /** The file and line of the call that made a column, as noted by PySpark. */
  private static void written(StringBuilder text, Expression found) {
    scala.Option context = found.origin().pysparkErrorContext();
    if (context.isDefined()) {
      text.append(",\"w\":");
      quote(text, String.valueOf(((scala.Tuple2) context.get())._2()));
    }
  }

  private void argument(StringBuilder text, Object node, String name, Object found) throws Exception {
    if (node instanceof Literal && name.equals("value")) {
      internal(text, found, ((Literal) node).dataType());
    } else if (node instanceof InSet && name.equals("hset")) {
      DataType type = ((Expression) ((InSet) node).child()).dataType();
      List parts = new ArrayList();
      scala.collection.Iterator each = ((scala.collection.Iterable) found).iterator();
      while (each.hasNext()) {
        StringBuilder part = new StringBuilder();
        internal(part, each.next(), type);
        parts.add(part.toString());
      }
      sorted(text, "s", parts);
    } else if (node instanceof LocalRelation && name.equals("data")) {
      rows(text, (scala.collection.Iterable) found, ((LocalRelation) node).schema());
    } else {
      value(text, found);
    }
  }

  private void value(StringBuilder text, Object found) throws Exception {
    // The place in the job's code where an expression was written is no part of its meaning.
    if (found == null || found == scala.None$.MODULE$ || found instanceof org.apache.spark.QueryContext) {
      text.append("null");
    } else if (found instanceof Boolean || isWhole(found)) {
      text.append(found);
    } else if (found instanceof Double || found instanceof Float) {
      tagged(text, "d", String.valueOf(found));
    } else if (found instanceof String || found instanceof UTF8String) {
      quote(text, found.toString());
    } else if (found instanceof Character) {
      tagged(text, "x", found.toString());
    } else if (found instanceof scala.Some) {
      value(text, ((scala.Some) found).value());
    } else if (found instanceof DataType) {
      text.append("{\"t\":").append(((DataType) found).json()).append('}');
    } else if (found instanceof Metadata) {
      text.append("{\"t\":").append(((Metadata) found).json()).append('}');
    } else if (found instanceof ExprId) {
      text.append("{\"id\":").append(((ExprId) found).id()).append('}');
    } else if (found instanceof byte[]) {
      bytes(text, (byte[]) found);
    } else if (found instanceof FileIndex) {
      value(text, ((FileIndex) found).rootPaths());
    } else if (found instanceof FileFormat) {
      tagged(text, "c", found.getClass().getName());
    } else if (isText(found)) {
      tagged(text, "x", found.toString());
    } else if (found instanceof Class) {
      tagged(text, "c", ((Class) found).getName());
    } else {
      compound(text, found);
    }
  }

  private static boolean isWhole(Object found) {
    return found instanceof Integer || found instanceof Long || found instanceof Short || found instanceof Byte;
  }

  private static boolean isText(Object found) {
    return found instanceof Enum
        || found instanceof scala.Enumeration.Value
        || found instanceof Decimal
        || found instanceof java.math.BigDecimal
        || found instanceof java.math.BigInteger
        || found instanceof CalendarInterval
        || found instanceof java.net.URI
        || found instanceof org.apache.hadoop.fs.Path
        || found instanceof java.util.regex.Pattern
        || found instanceof java.nio.charset.Charset
        || found instanceof java.util.Locale
        || found instanceof java.time.ZoneId
        || found instanceof java.util.UUID;
  }

  private void compound(StringBuilder text, Object found) throws Exception {
    if (found instanceof scala.collection.Map || found instanceof java.util.Map) {
      List parts = new ArrayList();
      java.util.Iterator each = elements(found).iterator();
      while (each.hasNext()) {
        Object pair = each.next();
        if (pair instanceof scala.Tuple2) {
          parts.add(entry(((scala.Tuple2) pair)._1(), ((scala.Tuple2) pair)._2()));
        } else {
          parts.add(entry(((java.util.Map.Entry) pair).getKey(), ((java.util.Map.Entry) pair).getValue()));
        }
      }
      sorted(text, "m", parts);
    } else if (found instanceof scala.collection.Set) {
      List parts = new ArrayList();
      java.util.Iterator each = elements(found).iterator();
      while (each.hasNext()) parts.add(alone(each.next()));
      sorted(text, "s", parts);
    } else if (found instanceof scala.collection.Seq
        || found instanceof java.util.Collection
        || found.getClass().isArray()) {
      text.append('[');
      java.util.Iterator each = elements(found).iterator();
      for (boolean first = true; each.hasNext(); first = false) {
        if (!first) text.append(',');
        value(text, each.next());
      }
      text.append(']');
    } else if (found instanceof org.apache.spark.api.python.PythonFunction) {
      if (!functions.containsKey(found)) functions.put(found, Integer.valueOf(functions.size()));
      text.append("{\"f\":").append(functions.get(found)).append('}');
    } else if (found instanceof scala.Product && !above.containsKey(found)) {
      scala.Product product = (scala.Product) found;
      if (product.productArity() == 0 && found.getClass().getName().endsWith("$")) {
        tagged(text, "c", found.getClass().getName());
      } else {
        text.append("{\"n\":").append(node(product)).append('}');
      }
    } else if (found instanceof TreeNode || !found.getClass().getName().endsWith("$")) {
      tagged(text, "u", found.getClass().getName());
    } else {
      // A Scala object: its class has only one instance.
      tagged(text, "c", found.getClass().getName());
    }
  }

  /** The elements of a Scala or Java collection, or of an array, in order. */
  private static List elements(Object found) {
    List parts = new ArrayList();
    if (found instanceof scala.collection.Iterable) {
      scala.collection.Iterator each = ((scala.collection.Iterable) found).iterator();
      while (each.hasNext()) parts.add(each.next());
    } else if (found instanceof java.util.Map) {
      parts.addAll(((java.util.Map) found).entrySet());
    } else if (found instanceof java.util.Collection) {
      parts.addAll((java.util.Collection) found);
    } else {
      for (int i = 0; i < java.lang.reflect.Array.getLength(found); i++) {
        parts.add(java.lang.reflect.Array.get(found, i));
      }
    }
    return parts;
  }

  /** A value in Catalyst's internal form, which can only be read by its type. */
  private void internal(StringBuilder text, Object found, DataType type) throws Exception {
    DataType kept = type instanceof UserDefinedType ? ((UserDefinedType) type).sqlType() : type;
    if (found instanceof ArrayData && kept instanceof ArrayType) {
      DataType inner = ((ArrayType) kept).elementType();
      ArrayData array = (ArrayData) found;
      text.append('[');
      for (int i = 0; i < array.numElements(); i++) {
        if (i > 0) text.append(',');
        internal(text, array.isNullAt(i) ? null : array.get(i, inner), inner);
      }
      text.append(']');
    } else if (found instanceof MapData && kept instanceof MapType) {
      MapType map = (MapType) kept;
      text.append('[');
      internal(text, ((MapData) found).keyArray(), new ArrayType(map.keyType(), false));
      text.append(',');
      internal(text, ((MapData) found).valueArray(), new ArrayType(map.valueType(), true));
      text.append(']');
    } else if (found instanceof InternalRow && kept instanceof StructType) {
      StructType struct = (StructType) kept;
      InternalRow row = (InternalRow) found;
      text.append('[');
      for (int i = 0; i < struct.length(); i++) {
        if (i > 0) text.append(',');
        DataType inner = struct.apply(i).dataType();
        internal(text, row.isNullAt(i) ? null : row.get(i, inner), inner);
      }
      text.append(']');
    } else if (found instanceof VariantVal) {
      text.append('[');
      bytes(text, ((VariantVal) found).getMetadata());
      text.append(',');
      bytes(text, ((VariantVal) found).getValue());
      text.append(']');
    } else {
      value(text, found);
    }
  }

  private void rows(StringBuilder text, scala.collection.Iterable rows, StructType schema) throws Exception {
    java.security.MessageDigest digest = java.security.MessageDigest.getInstance("SHA-256");
    scala.collection.Iterator each = rows.iterator();
    while (each.hasNext()) {
      StringBuilder row = new StringBuilder();
      internal(row, each.next(), schema);
      digest.update(row.append('\n').toString().getBytes("UTF-8"));
    }
    StringBuilder hex = new StringBuilder();
    hex(hex, digest.digest());
    tagged(text, "r", hex.toString());
  }

  private String alone(Object found) throws Exception {
    StringBuilder part = new StringBuilder();
    value(part, found);
    return part.toString();
  }

  private String entry(Object key, Object found) throws Exception {
    return "[" + alone(key) + "," + alone(found) + "]";
  }

  private static void sorted(StringBuilder text, String tag, List parts) {
    Collections.sort(parts);
    text.append("{\"").append(tag).append("\":[");
    for (int i = 0; i < parts.size(); i++) {
      if (i > 0) text.append(',');
      text.append((String) parts.get(i));
    }
    text.append("]}");
  }

  private static void tagged(StringBuilder text, String tag, String shown) {
    text.append("{\"").append(tag).append("\":");
    quote(text, shown);
    text.append('}');
  }

  private static void bytes(StringBuilder text, byte[] found) {
    text.append("{\"b\":\"");
    hex(text, found);
    text.append("\"}");
  }

  private static void hex(StringBuilder text, byte[] found) {
    for (int i = 0; i < found.length; i++) {
      text.append(HEX[(found[i] >> 4) & 15]).append(HEX[found[i] & 15]);
    }
  }

  private static String simpleName(Class kind) {
    String name = kind.getName();
    return name.substring(name.lastIndexOf('.') + 1);
  }

  private static void quote(StringBuilder text, String found) {
    text.append('"');
    for (int i = 0; i < found.length(); i++) {
      char each = found.charAt(i);
      if (each == '"' || each == '\\') {
        text.append('\\').append(each);
      } else if (each < ' ' || each > '~') {
        text.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) text.append(HEX[(each >> shift) & 15]);
      } else {
        text.append(each);
      }
    }
    text.append('"');
  }
}
