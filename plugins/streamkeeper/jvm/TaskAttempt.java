package streamkeeper.jvm;

import org.apache.spark.TaskContext;

/** The attempt of the Spark task that runs on the calling thread. SQL's {@code reflect} calls it for each record. */
public final class TaskAttempt {
  private TaskAttempt() {}

  public static String id() {
    TaskContext context = TaskContext.get();
    return context == null ? "" : Long.toString(context.taskAttemptId());
  }
}
