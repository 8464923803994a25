package streamkeeper.jvm;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.UUID;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;

/**
 * The files that a batch of a streaming query is about to read more than once.
 *
 * <p>Spark 4.2.0 takes a file's path for a pattern where it holds one of {}[]*?\, although FileStreamSource says that it
 * is none; then {@code DataSource.checkAndGlobPathIfNecessary} answers with all paths of the batch, once for each such
 * path. An input with partition directories is read by its leaf files, which are a set. Compiled by Janino.
 */
public final class BatchFiles {
  private static final String SPECIAL = "{}[]*?\\";

  /** For py4j, which calls methods of an object. */
  public BatchFiles() {}

  /** Paths by which other files are read again; called by the thread that runs the query. */
  public List doubling(Object batch) {
    List found = new ArrayList();
    SparkSession session = ((Dataset) batch).sparkSession();
    String id = session.sparkContext().getLocalProperty("sql.streaming.queryId");
    StreamExecution running = (StreamExecution) session.sharedState().activeStreamingQueries().get(UUID.fromString(id));
    Iterator plans =
        scala.jdk.javaapi.CollectionConverters.asJava(running.getLatestExecutionContext().newData()).values().iterator();
    while (plans.hasNext()) {
      Iterator leaves =
          scala.jdk.javaapi.CollectionConverters.asJava(((LogicalPlan) plans.next()).collectLeaves()).iterator();
      while (leaves.hasNext()) addDoubling(leaves.next(), found);
    }
    return found;
  }

  private static void addDoubling(Object leaf, List found) {
    if (!(leaf instanceof LogicalRelation)) return;
    Object relation = ((LogicalRelation) leaf).relation();
    if (!(relation instanceof HadoopFsRelation)) return;
    FileIndex files = ((HadoopFsRelation) relation).location();
    Set special = new HashSet();
    Iterator roots = scala.jdk.javaapi.CollectionConverters.asJava(files.rootPaths()).iterator();
    while (roots.hasNext()) {
      String path = ((Path) roots.next()).toString();
      if (isSpecial(path)) special.add(path);
    }
    if (special.isEmpty()) return;
    Set seen = new HashSet();
    String[] read = files.inputFiles();
    for (int at = 0; at < read.length; at++) {
      if (!seen.add(read[at])) {
        found.addAll(special);
        return;
      }
    }
  }

  private static boolean isSpecial(String path) {
    for (int at = 0; at < path.length(); at++) {
      if (SPECIAL.indexOf(path.charAt(at)) >= 0) return true;
    }
    return false;
  }
}
