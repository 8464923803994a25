package streamkeeper.jvm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * On s3a one PUT a file, create-only where Spark asks for it; on other file systems Spark's own manager.
 *
 * Spark's managers look, copy and delete in the place of a rename that S3 has not, so both of two writers win. Here the
 * bucket chooses one (If-None-Match), and the other is told. A winner whose answer was lost is refused when the client
 * sends the request again: it knows its file by a mark in the object's metadata.
 */
public final class CreateOnlyCheckpointFileManager extends FileContextBasedCheckpointFileManager {
  private static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";
  private static final String MARK = "x-streamkeeper-writer";
  private static final String MARK_OPTION = "fs.s3a.create.header." + MARK;
  private static final String MARK_ATTRIBUTE = "header." + MARK;

  private final FileSystem fs;

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
      // Janino knows no wildcards.
      FSDataOutputStreamBuilder builder = fs.createFile(path);
      builder.create();
      builder.recursive();
      builder.overwrite(true);
      if (!overwrite) {
        builder.must(CREATE_ONLY, true);
        builder.must(MARK_OPTION, mark);
      }
      return new Whole(fs, (FSDataOutputStream) builder.build(), path, overwrite ? null : mark);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** A file that is there, whole, once it is closed; {@code mark}: its writer's, or null for what may be replaced. */
  private static final class Whole extends CancellableFSDataOutputStream {
    private final FileSystem fs;
    private final FSDataOutputStream out;
    private final Path path;
    private final String mark;
    private boolean ended;

    Whole(FileSystem fs, FSDataOutputStream out, Path path, String mark) {
      super(out);
      this.fs = fs;
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
    }

    /** Raises FileAlreadyExistsException for another's; false where there is nothing, or nobody answers. */
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
