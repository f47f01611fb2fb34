import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.data.Stat;

// docs/from-java-curator.md shows this class.

class Fenced extends InterProcessMutex {
    private final CuratorFramework client;

    Fenced(CuratorFramework client, String path) {
        super(client, path);
        this.client = client;
    }

    /** The fencing token of this thread's hold. */
    long token() throws Exception {
        Stat node = client.checkExists().forPath(getLockPath());
        if (node == null) {
            throw new IllegalStateException("the lock is lost");
        }
        return node.getCzxid();
    }
}
