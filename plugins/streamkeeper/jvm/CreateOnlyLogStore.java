package streamkeeper.jvm;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.UUID;

import io.delta.storage.HDFSLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Creates each commit of a Delta table on a local disk with a hard link, so that only one of several writers succeeds.
 *
 * Delta's own class checks and then renames. A writer that is frozen between the two replaces a commit of another one.
 */
public class CreateOnlyLogStore extends HDFSLogStore {

  public CreateOnlyLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    if (overwrite.booleanValue()) {
      super.write(path, actions, overwrite, conf);
      return;
    }
    java.nio.file.Path target = Paths.get(path.toUri().getPath());
    java.nio.file.Path draft = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    try {
      FileOutputStream out = new FileOutputStream(draft.toFile());
      try {
        while (actions.hasNext()) {
          String line = (String) actions.next() + "\n";
          out.write(line.getBytes(StandardCharsets.UTF_8));
        }
        out.getFD().sync();
      } finally {
        out.close();
      }
      try {
        Files.createLink(target, draft);
      } catch (FileAlreadyExistsException taken) {
        throw new FileAlreadyExistsException(path.toString());
      }
    } finally {
      Files.deleteIfExists(draft);
    }
    FileChannel folder = FileChannel.open(target.getParent(), new OpenOption[] {StandardOpenOption.READ});
    try {
      folder.force(true);
    } finally {
      folder.close();
    }
  }
}
