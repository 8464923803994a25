package streamkeeper.inspection;

import java.util.HashMap;
import java.util.Map;

import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A copy of a streaming plan with other options for its sources, and with bytes before each pickled Python function.
 *
 * <p>Janino compiles this code. It has no lambdas, and no generics that Janino cannot infer.
 */
public final class ClonedPlan {
  /** A variable in the environment of the Python workers of clones. No other workers have it. */
  private static final String VARIABLE = "STREAMKEEPER_CLONE";

  private final Map options;
  private final byte[] prefix;

  /** Makes an object for py4j, which calls methods of objects. */
  public ClonedPlan() {
    this(new HashMap(), new byte[0]);
  }

  private ClonedPlan(Map options, byte[] prefix) {
    this.options = options;
    this.prefix = prefix;
  }

  /** The same query in another session. Every source gets {@code options}, whether it knows them or not. */
  public Dataset of(Object session, Object plan, Map options, byte[] prefix) {
    ClonedPlan cloned = new ClonedPlan(options, prefix);
    LogicalPlan changed = (LogicalPlan) ((LogicalPlan) plan).transform(new Sources(cloned));
    changed = (LogicalPlan) changed.transformAllExpressionsWithSubqueries(new Functions(cloned));
    return Dataset$.MODULE$.ofRows((SparkSession) session, changed);
  }

  /** The given options, where ours replace those of the same name. Upper and lower case do not count. */
  private Map changed(Map given) {
    Map found = new HashMap();
    java.util.Iterator names = given.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      if (!isOurs(name)) found.put(name, given.get(name));
    }
    found.putAll(options);
    return found;
  }

  private boolean isOurs(String name) {
    java.util.Iterator ours = options.keySet().iterator();
    while (ours.hasNext()) {
      if (((String) ours.next()).equalsIgnoreCase(name)) return true;
    }
    return false;
  }

  private StreamingRelation ofFirstVersion(StreamingRelation relation) {
    DataSource source = relation.dataSource();
    Map given = scala.jdk.javaapi.CollectionConverters.asJava(source.options());
    scala.collection.immutable.Map changed =
        scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(changed(given)));
    return relation.copy(
        source.copy(
            source.sparkSession(),
            source.className(),
            source.paths(),
            source.userSpecifiedSchema(),
            source.partitionColumns(),
            source.bucketSpec(),
            changed,
            source.catalogTable(),
            source.userSpecifiedStreamingSourceName()),
        relation.sourceName(),
        relation.output(),
        relation.sourceIdentifyingName());
  }

  private StreamingRelationV2 ofSecondVersion(StreamingRelationV2 relation) {
    Map changed = changed(relation.extraOptions().asCaseSensitiveMap());
    // Spark reads this relation if a conf disables version 2 of the connector.
    scala.Option first = relation.v1Relation();
    if (first.isDefined() && first.get() instanceof StreamingRelation) {
      first = new scala.Some(ofFirstVersion((StreamingRelation) first.get()));
    }
    return relation.copy(
        relation.source(),
        relation.sourceName(),
        relation.table(),
        new CaseInsensitiveStringMap(changed),
        relation.output(),
        relation.catalog(),
        relation.identifier(),
        first,
        relation.sourceIdentifyingName());
  }

  private PythonFunction prefixed(PythonFunction given) {
    byte[] command = (byte[]) given.command().toArray(scala.reflect.ClassTag$.MODULE$.Byte());
    byte[] joined = new byte[prefix.length + command.length];
    System.arraycopy(prefix, 0, joined, 0, prefix.length);
    System.arraycopy(command, 0, joined, prefix.length, command.length);
    // Spark keeps workers by their environment, so the owner's workers never see what a stopped function has cached.
    Map variables = new HashMap(given.envVars());
    variables.put(VARIABLE, "1");
    return new SimplePythonFunction(
        joined,
        variables,
        given.pythonIncludes(),
        given.pythonExec(),
        given.pythonVer(),
        given.broadcastVars(),
        given.accumulator());
  }

  private static final class Sources extends scala.runtime.AbstractPartialFunction {
    private final ClonedPlan cloned;

    Sources(ClonedPlan cloned) {
      this.cloned = cloned;
    }

    public boolean isDefinedAt(Object found) {
      return found instanceof StreamingRelation || found instanceof StreamingRelationV2;
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      if (found instanceof StreamingRelation) return cloned.ofFirstVersion((StreamingRelation) found);
      if (found instanceof StreamingRelationV2) return cloned.ofSecondVersion((StreamingRelationV2) found);
      return otherwise.apply(found);
    }
  }

  private static final class Functions extends scala.runtime.AbstractPartialFunction {
    private final ClonedPlan cloned;

    Functions(ClonedPlan cloned) {
      this.cloned = cloned;
    }

    public boolean isDefinedAt(Object found) {
      return found instanceof PythonFuncExpression;
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      if (!isDefinedAt(found)) return otherwise.apply(found);
      Object[] arguments = new Object[((scala.Product) found).productArity()];
      for (int at = 0; at < arguments.length; at++) {
        Object argument = ((scala.Product) found).productElement(at);
        arguments[at] = argument instanceof PythonFunction ? cloned.prefixed((PythonFunction) argument) : argument;
      }
      return (Expression) ((TreeNode) found).makeCopy(arguments);
    }
  }
}
