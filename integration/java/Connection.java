import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** The client and its session, and the wall clock. Each change of the connection's state is an event "state NAME". */
final class Connection {
    private static final long CONNECT_SECONDS = 30;

    private final Peer peer;
    private volatile CuratorFramework client;
    private volatile String connectString;

    Connection(Peer peer) {
        this.peer = peer;
        peer.command("connect", arguments -> connect(arguments, false));
        peer.command("connect-compressing", arguments -> connect(arguments, true));
        peer.command("session", arguments -> Words.of(zooKeeper().getSessionId()));
        peer.command("kill-session", arguments -> killSession());
        peer.command("clock", arguments -> Words.of(System.currentTimeMillis()));
    }

    CuratorFramework client() {
        if (client == null) {
            throw new IllegalStateException("not connected");
        }
        return client;
    }

    void close() {
        if (client != null) {
            client.close();
        }
    }

    private Words connect(Words arguments, boolean compressing) throws Exception {
        connectString = arguments.text(0);
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
            .connectString(connectString)
            .sessionTimeoutMs((int) arguments.number(1))
            .connectionTimeoutMs(15_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            // It would replace a proxy's address by the server's own.
            .ensembleTracker(false);
        if (arguments.size() > 2) { // a login by digest, and the ids of those it shares locks with
            builder.authorization("digest", arguments.bytes(2)).aclProvider(new Contenders(arguments.from(3)));
        }
        if (compressing) { // by reflection: it does not exist before Curator 5.8
            CuratorFrameworkFactory.Builder.class.getMethod("enableCompression").invoke(builder);
        }
        client = builder.build();
        client.getConnectionStateListenable()
            .addListener((c, state) -> peer.event("state", Words.of(state)));
        client.start();
        if (!client.blockUntilConnected((int) CONNECT_SECONDS, TimeUnit.SECONDS)) {
            return Command.TIMEOUT;
        }
        return Words.of(zooKeeper().getSessionId());
    }

    private ZooKeeper zooKeeper() throws Exception {
        return client().getZookeeperClient().getZooKeeper();
    }

    /** Ends the session at the server, as an expiry does: a second connection takes it over and closes it. */
    private Words killSession() throws Exception {
        ZooKeeper victim = zooKeeper();
        long id = victim.getSessionId();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper killer = new ZooKeeper(connectString, victim.getSessionTimeout(), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, id, victim.getSessionPasswd());
        boolean done = connected.await(CONNECT_SECONDS, TimeUnit.SECONDS);
        killer.close();
        return done ? Words.of(id) : Command.TIMEOUT;
    }
}
