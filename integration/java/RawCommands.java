import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * ZooKeeper's own client, without Curator: raw-connect NAME CONNECT MILLISECONDS, then raw NAME OPERATION
 * ARGUMENT... Each event is "raw NAME STATE TYPE PATH", where PATH is empty for a change of the connection's
 * state. A watch is asked for by the argument "watch" after the path.
 */
final class RawCommands {
    private static final int CONNECT_SECONDS = 30;

    private final Peer peer;

    RawCommands(Peer peer) {
        this.peer = peer;
        peer.command("raw-connect", this::connect);
        peer.command("raw", a -> run(peer.get(a.text(0), ZooKeeper.class), a.text(1), a.from(2)));
    }

    private Words connect(Words a) throws Exception {
        String name = a.text(0);
        CountDownLatch connected = new CountDownLatch(1);
        Watcher watcher = (WatchedEvent event) -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
            String path = event.getPath() == null ? "" : event.getPath();
            peer.event("raw", Words.of(name, event.getState(), event.getType(), path));
        };
        ZooKeeper client = new ZooKeeper(a.text(1), (int) a.number(2), watcher);
        peer.put(name, client);
        return connected.await(CONNECT_SECONDS, TimeUnit.SECONDS) ? Words.of(client.getSessionId())
                : Command.TIMEOUT;
    }

    private Words run(ZooKeeper zk, String operation, Words a) throws Exception {
        boolean watch = a.text(1, "").equals("watch");
        Stat stat = new Stat();
        switch (operation) {
            case "session":
                return Words.of(zk.getSessionId());
            case "close":
                zk.close();
                return Command.DONE;
            case "create":
                return Words.of(zk.create(a.text(0), a.bytes(1), Ids.OPEN_ACL_UNSAFE,
                        CreateMode.valueOf(a.text(2)), stat, ttl(a)), stat.getVersion());
            case "create-private":
                return Words.of(zk.create(a.text(0), null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
            case "delete":
                zk.delete(a.text(0), (int) a.number(1));
                return Command.DONE;
            case "exists":
                stat = zk.exists(a.text(0), watch);
                return stat == null ? Command.DONE
                        : Words.of(stat.getVersion(), stat.getNumChildren(), stat.getEphemeralOwner());
            case "get":
                return Words.of(zk.getData(a.text(0), watch, stat), stat.getVersion());
            case "set":
                return Words.of(zk.setData(a.text(0), a.bytes(1), (int) a.number(2)).getVersion());
            case "children":
                return new Words().addAll(zk.getChildren(a.text(0), watch, stat).stream().sorted().toList());
            case "sync":
                zk.sync(a.text(0), (code, path, context) -> { }, null);
                return Command.DONE;
            default:
                return more(zk, operation, a);
        }
    }

    private static long ttl(Words a) {
        return a.size() > 3 ? a.number(3) : -1;
    }

    private static Words more(ZooKeeper zk, String operation, Words a) throws Exception {
        switch (operation) {
            case "auth":
                zk.addAuthInfo("digest", a.bytes(0));
                return Command.DONE;
            case "who-am-i":
                return new Words().addAll(zk.whoAmI().stream().map(i -> i.getAuthScheme() + ":" + i.getUser())
                        .sorted().toList());
            case "get-acl":
                return new Words().addAll(zk.getACL(a.text(0), new Stat()).stream().map(RawCommands::acl)
                        .toList());
            case "set-acl":
                return Words.of(zk.setACL(a.text(0), Collections.singletonList(new ACL((int) a.number(1),
                        new Id(a.text(2), a.text(3)))), -1).getAversion());
            case "add-watch":
                zk.addWatch(a.text(0), AddWatchMode.valueOf(a.text(1)));
                return Command.DONE;
            case "remove-watches":
                zk.removeAllWatches(a.text(0), Watcher.WatcherType.valueOf(a.text(1)), false);
                return Command.DONE;
            case "ephemerals":
                return new Words().addAll(zk.getEphemerals(a.text(0)).stream().sorted().toList());
            case "count":
                return Words.of(zk.getAllChildrenNumber(a.text(0)));
            case "multi":
                return results(zk, a);
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }

    private static String acl(ACL acl) {
        return acl.getPerms() + ":" + acl.getId().getScheme() + ":" + acl.getId().getId();
    }

    /** Triples KIND PATH ARGUMENT; a result is a word: what it is of, or the error's code. */
    private static Words results(ZooKeeper zk, Words a) throws Exception {
        List<Op> operations = new ArrayList<>();
        for (int i = 0; i < a.size(); i += 3) {
            String path = a.text(i + 1);
            operations.add(switch (a.text(i)) {
                case "create" -> Op.create(path, a.bytes(i + 2), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                case "delete" -> Op.delete(path, (int) a.number(i + 2));
                case "set" -> Op.setData(path, a.bytes(i + 2), -1);
                case "check" -> Op.check(path, (int) a.number(i + 2));
                case "get" -> Op.getData(path);
                default -> Op.getChildren(path);
            });
        }
        List<OpResult> results;
        try {
            results = zk.multi(operations);
        } catch (KeeperException e) {
            results = e.getResults();
        }
        Words words = new Words();
        for (OpResult result : results) {
            words.add(result instanceof OpResult.ErrorResult error ? error.getErr() : result.getClass()
                    .getSimpleName());
        }
        return words;
    }
}
