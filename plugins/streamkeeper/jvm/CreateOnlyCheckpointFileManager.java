package streamkeeper.jvm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * Writes each file on s3a with one PUT, create-only if Spark requests that; other file systems use Spark's manager.
 *
 * S3 has no rename. Spark's managers check, copy and delete instead, so two writers both succeed. Here the bucket
 * chooses one (If-None-Match), and the other gets an error. If the winner's response is lost, the client's retry is
 * refused; the winner then recognises its file by a mark in the object's metadata.
 */
public final class CreateOnlyCheckpointFileManager extends FileContextBasedCheckpointFileManager {
  private static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";
  private static final String NO_PROBES = "fs.s3a.create.performance";
  private static final String MARK = "x-streamkeeper-writer";
  private static final String MARK_OPTION = "fs.s3a.create.header." + MARK;
  private static final String MARK_ATTRIBUTE = "header." + MARK;

  private static final Pattern NUMBER = Pattern.compile("(\\d{1,18})(\\.compact)?");

  private final FileSystem fs;
  private volatile Path newest;

  public CreateOnlyCheckpointFileManager(Path path, Configuration conf) throws IOException {
    super(path, conf);
    fs = path.getFileSystem(conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    if (!"s3a".equals(fs.getScheme())) {
      return super.createAtomic(path, overwrite);
    }
    String mark = UUID.randomUUID().toString();
    try {
      // Janino does not support wildcards.
      FSDataOutputStreamBuilder builder = fs.createFile(path);
      builder.create();
      builder.recursive();
      builder.overwrite(true);
      builder.must(NO_PROBES, true);
      if (!overwrite) {
        builder.must(CREATE_ONLY, true);
        builder.must(MARK_OPTION, mark);
      }
      return new Whole((FSDataOutputStream) builder.build(), path, overwrite ? null : mark);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Skips the check for the entry after the log's own newest one: if another writer created it, the create fails. */
  @Override
  public boolean exists(Path path) {
    return !isNext(path) && super.exists(path);
  }

  /** Deletes a file with one request; Hadoop would check its type before, and its folder's content after. */
  @Override
  public void delete(Path path) {
    if (!"s3a".equals(fs.getScheme()) || !isFile(path)) {
      super.delete(path);
      return;
    }
    try {
      BulkDelete alone = fs.createBulkDelete(path.getParent());
      try {
        List kept = alone.bulkDelete(Collections.singletonList(path));
        if (!kept.isEmpty()) {
          throw new IOException("cannot delete " + kept.get(0));
        }
      } finally {
        alone.close();
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private boolean isNext(Path path) {
    Path before = newest;
    return before != null
        && before.getParent().equals(path.getParent())
        && numberOf(before) >= 0
        && numberOf(path) == numberOf(before) + 1;
  }

  /** The number of a log's entry; -1 for every other file. */
  private static long numberOf(Path path) {
    Matcher found = NUMBER.matcher(path.getName());
    return found.matches() ? Long.parseLong(found.group(1)) : -1;
  }

  /** Whether it cannot be a folder of a checkpoint: it is an entry of a log, or its name has an extension. */
  private static boolean isFile(Path path) {
    Path folder = path.getParent();
    return path.getName().indexOf('.') > 0
        || "offsets".equals(folder.getName())
        || "commits".equals(folder.getName())
        || (folder.getParent() != null && "sources".equals(folder.getParent().getName()));
  }

  /** A file that appears whole when it is closed; {@code mark}: its writer's mark, or null if it may be replaced. */
  private final class Whole extends CancellableFSDataOutputStream {
    private final FSDataOutputStream out;
    private final Path path;
    private final String mark;
    private boolean ended;

    Whole(FSDataOutputStream out, Path path, String mark) {
      super(out);
      this.out = out;
      this.path = path;
      this.mark = mark;
    }

    @Override
    public synchronized void cancel() {
      if (!ended) {
        ended = true;
        out.abort();
      }
    }

    @Override
    public synchronized void close() throws IOException {
      if (ended) {
        return;
      }
      ended = true;
      try {
        out.close();
      } catch (IOException error) {
        if (mark == null || !isThereAsMine(error)) {
          throw error;
        }
      }
      if (mark != null) {
        newest = path;
      }
    }

    /** Raises FileAlreadyExistsException for another writer's file; false without a file, or without a response. */
    private boolean isThereAsMine(IOException error) throws FileAlreadyExistsException {
      byte[] found;
      try {
        found = fs.getXAttr(path, MARK_ATTRIBUTE);
      } catch (IOException unknown) {
        error.addSuppressed(unknown);
        return false;
      }
      if (found == null || !mark.equals(new String(found, StandardCharsets.UTF_8))) {
        throw new FileAlreadyExistsException(path + ": another writer was first");
      }
      return true;
    }
  }
}
