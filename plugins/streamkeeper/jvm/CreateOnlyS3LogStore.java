package streamkeeper.jvm;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

import io.delta.storage.HadoopFileSystemLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * Creates each commit of a Delta table on s3a with one conditional PUT, so that only one of several writers succeeds.
 *
 * Delta's own class checks and then writes, under a lock of its JVM: of two drivers, both succeed.
 */
public class CreateOnlyS3LogStore extends HadoopFileSystemLogStore {

  private static final long BLOCK = 32L * 1024 * 1024;

  private final Map managers = new ConcurrentHashMap();

  public CreateOnlyS3LogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    try {
      CancellableFSDataOutputStream out = managerOf(path.getParent(), conf).createAtomic(path, overwrite.booleanValue());
      try {
        while (actions.hasNext()) {
          String line = (String) actions.next() + "\n";
          out.write(line.getBytes(StandardCharsets.UTF_8));
        }
      } catch (Throwable error) {
        out.cancel();
        throw error;
      }
      out.close();
    } catch (FileAlreadyExistsException taken) {
      throw new java.nio.file.FileAlreadyExistsException(path.toString());
    } catch (UncheckedIOException error) {
      throw error.getCause();
    }
  }

  /** Returns the one manager of a log, because each manager initialises a client of its own. */
  private CreateOnlyCheckpointFileManager managerOf(Path log, Configuration conf) throws IOException {
    CreateOnlyCheckpointFileManager known = (CreateOnlyCheckpointFileManager) managers.get(log);
    if (known == null) {
      known = new CreateOnlyCheckpointFileManager(log, conf);
      managers.put(log, known);
    }
    return known;
  }

  /**
   * Lists only the files from {@code path} on. Delta's default lists the whole log, which may have a commit for each
   * batch of the last 30 days; its faster form does not work with this version of Hadoop.
   */
  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
    FileSystem fs = path.getFileSystem(conf);
    Path folder = fs.makeQualified(path.getParent());
    String prefix = folder.toUri().getPath().substring(1) + "/";
    String first = path.getName();
    ListObjectsV2Request request = (ListObjectsV2Request) ListObjectsV2Request.builder()
        .bucket(((S3AFileSystem) fs).getBucket())
        .prefix(prefix)
        .delimiter("/")
        .startAfter(prefix + first.substring(0, first.length() - 1))
        .build();
    TreeMap<String, FileStatus> found = new TreeMap<String, FileStatus>();
    try {
      S3Client client = ((S3AFileSystem) fs).getS3AInternals().getAmazonS3Client("the log of a Delta table");
      for (Iterator objects = client.listObjectsV2Paginator(request).contents().iterator(); objects.hasNext();) {
        S3Object object = (S3Object) objects.next();
        String name = object.key().substring(prefix.length());
        if (name.compareTo(first) >= 0) {
          long modified = object.lastModified().toEpochMilli();
          Path file = new Path(folder, name);
          found.put(name, new FileStatus(object.size().longValue(), false, 1, BLOCK, modified, file));
        }
      }
    } catch (SdkException error) {
      throw new IOException("cannot list " + folder + ": " + error.getMessage(), error);
    }
    if (found.isEmpty() && !fs.exists(folder)) {
      throw new FileNotFoundException("No such file or directory: " + folder);
    }
    return found.values().iterator();
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return Boolean.FALSE;
  }
}
