package streamkeeper.jvm;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.UUID;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;

/**
 * Finds the files that a batch of a streaming query is about to read more than once, and those that it would skip.
 *
 * <p>Spark 4.2.0 treats a file's path as a pattern if it contains one of {}[]*?\, although FileStreamSource declares
 * that it is not one; then {@code DataSource.checkAndGlobPathIfNecessary} returns all paths of the batch, once for each
 * such path. An input with partition directories is read by its leaf files, which are a set.
 *
 * <p>Spark lists the planned files before it runs the batch, and skips missing ones. A file that disappears later is an
 * error of the task that reads it. Compiled by Janino.
 */
public final class BatchFiles {
  private static final String SPECIAL = "{}[]*?\\";

  /** For py4j, which calls methods on an object. */
  public BatchFiles() {}

  /** Paths that make Spark read other files again; called by the thread that runs the query. */
  public List doubling(Object batch) {
    List found = new ArrayList();
    Iterator leaves = leavesOf(batch).iterator();
    while (leaves.hasNext()) addDoubling((FileIndex) leaves.next(), found);
    return found;
  }

  /** Paths of planned files that the batch would run without; called by the thread that runs the query. */
  public List missing(Object batch) {
    List found = new ArrayList();
    Iterator leaves = leavesOf(batch).iterator();
    while (leaves.hasNext()) {
      Object files = leaves.next();
      if (files instanceof PartitioningAwareFileIndex) addMissing((PartitioningAwareFileIndex) files, found);
    }
    return found;
  }

  private static List leavesOf(Object batch) {
    List found = new ArrayList();
    SparkSession session = ((Dataset) batch).sparkSession();
    String id = session.sparkContext().getLocalProperty("sql.streaming.queryId");
    StreamExecution running = (StreamExecution) session.sharedState().activeStreamingQueries().get(UUID.fromString(id));
    Iterator plans =
        scala.jdk.javaapi.CollectionConverters.asJava(running.getLatestExecutionContext().newData()).values().iterator();
    while (plans.hasNext()) {
      Iterator leaves =
          scala.jdk.javaapi.CollectionConverters.asJava(((LogicalPlan) plans.next()).collectLeaves()).iterator();
      while (leaves.hasNext()) {
        Object leaf = leaves.next();
        if (!(leaf instanceof LogicalRelation)) continue;
        Object relation = ((LogicalRelation) leaf).relation();
        if (relation instanceof HadoopFsRelation) found.add(((HadoopFsRelation) relation).location());
      }
    }
    return found;
  }

  private static void addMissing(PartitioningAwareFileIndex files, List found) {
    Set planned = new HashSet();
    Iterator roots = scala.jdk.javaapi.CollectionConverters.asJava(files.rootPaths()).iterator();
    while (roots.hasNext()) planned.add(((Path) roots.next()).toString());
    Set there = new HashSet();
    Iterator listed = scala.jdk.javaapi.CollectionConverters.asJava(files.allFiles()).iterator();
    while (listed.hasNext()) there.add(((FileStatus) listed.next()).getPath().toString());
    // Compared by number, because a listing may spell a path differently.
    if (there.size() >= planned.size()) return;
    Set gone = new HashSet(planned);
    gone.removeAll(there);
    found.addAll(gone);
  }

  private static void addDoubling(FileIndex files, List found) {
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
