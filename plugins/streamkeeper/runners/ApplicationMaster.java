package streamkeeper.runners;

import java.io.IOException;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException;

/**
 * Sends heartbeats for an application's first container: a ResourceManager drops an application without them.
 *
 * It requests no resources, and never reports the application's end: the container's exit code does. It retries a
 * ResourceManager that does not answer. It ends with its standard input, or with code 3 once the ResourceManager has
 * dropped the application.
 */
public class ApplicationMaster {
    private static final int LONGEST_PAUSE_MS = 10000;

    public static void main(String[] arguments) throws Exception {
        Thread watching = new Thread() {
            public void run() {
                endWithInput();
            }
        };
        watching.setDaemon(true);
        watching.start();
        YarnConfiguration conf = new YarnConfiguration();
        long expiry = conf.getLong(
            YarnConfiguration.RM_AM_EXPIRY_INTERVAL_MS, YarnConfiguration.DEFAULT_RM_AM_EXPIRY_INTERVAL_MS);
        long pause = Math.min(LONGEST_PAUSE_MS, expiry / 10);
        AMRMClient client = AMRMClient.createAMRMClient();
        client.init(conf);
        client.start();
        boolean registered = false;
        while (true) {
            try {
                if (!registered) {
                    client.registerApplicationMaster("", 0, "");
                    registered = true;
                }
                client.allocate(0.5f);
            } catch (ApplicationAttemptNotFoundException gone) {
                System.err.println("the ResourceManager has dropped this application: " + gone.getMessage());
                System.exit(3);
            } catch (Exception failure) {
                System.err.println("retrying the ResourceManager: " + failure);
            }
            Thread.sleep(pause);
        }
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException lost) {
            System.err.println(lost);
        }
        Runtime.getRuntime().halt(0);
    }
}
