import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.utils.ZKPaths;

/**
 * Locks: mutex NAME PATH, multi NAME PATH..., acquire NAME MILLISECONDS [THREAD], release NAME [THREAD], held
 * NAME, token NAME [THREAD] of a mutex, participants NAME|PATH.
 *
 * A lock belongs to the thread that acquired it. Without THREAD each lock has a thread of its own, named like
 * it.
 */
final class LockCommands {
    private final Peer peer;
    private final Connection connection;

    LockCommands(Peer peer, Connection connection) {
        this.peer = peer;
        this.connection = connection;
        peer.command("mutex", a -> {
            peer.put(a.text(0), new Fenced(connection.client(), a.text(1)));
            return Command.DONE;
        });
        peer.command("multi", a -> {
            List<String> paths = new ArrayList<>();
            a.from(1).forEach(paths::add);
            peer.put(a.text(0), new InterProcessMultiLock(connection.client(), paths));
            return Command.DONE;
        });
        peer.command("acquire", Command.onThread(2, this::acquire));
        peer.command("release", Command.onThread(1, a -> {
            peer.get(a.text(0), InterProcessLock.class).release();
            return Command.DONE;
        }));
        peer.command("token", Command.onThread(1, a ->
                Words.of(Long.toString(peer.get(a.text(0), Fenced.class).token()))));
        peer.command("held", a -> Words.of(peer.get(a.text(0), InterProcessLock.class)
                .isAcquiredInThisProcess()));
        peer.command("participants", this::participants);
    }

    /** Waits without end if the time is negative. The reply is the name of the lock's node, if any. */
    private Words acquire(Words arguments) throws Exception {
        InterProcessLock lock = peer.get(arguments.text(0), InterProcessLock.class);
        long milliseconds = arguments.number(1);
        if (milliseconds < 0) {
            lock.acquire();
        } else if (!lock.acquire(milliseconds, TimeUnit.MILLISECONDS)) {
            return Command.TIMEOUT;
        }
        return lock instanceof InterProcessMutex mutex ? Words.of(node(mutex)) : Command.DONE;
    }

    /** Curator keeps the path of the node for subclasses, and makes those of a read-write lock itself. */
    private static String node(InterProcessMutex mutex) throws Exception {
        Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        path.setAccessible(true);
        return ZKPaths.getNodeFromPath((String) path.invoke(mutex));
    }

    /** The names of the nodes in the queue of a mutex, in Curator's order: the holder's is the first. */
    private Words participants(Words arguments) throws Exception {
        String which = arguments.text(0);
        InterProcessMutex mutex = which.startsWith("/")
            ? new InterProcessMutex(connection.client(), which)
            : peer.get(which, InterProcessMutex.class);
        Collection<String> paths = mutex.getParticipantNodes();
        return new Words().addAll(paths.stream().map(ZKPaths::getNodeFromPath).toList());
    }
}
