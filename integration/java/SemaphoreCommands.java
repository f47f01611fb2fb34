import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;

/**
 * Semaphores: semaphore NAME PATH LEASES|COUNT, lease NAME KEY QUANTITY MILLISECONDS, return KEY; count NAME
 * PATH SEED, count-get NAME, count-set NAME NUMBER; semaphore-mutex NAME PATH, for the commands of {@link
 * LockCommands}.
 *
 * Leases are kept under a key of the caller's choice until they are returned.
 */
final class SemaphoreCommands {
    private final Peer peer;
    private final Map<String, Collection<Lease>> leases = new ConcurrentHashMap<>();

    SemaphoreCommands(Peer peer, Connection connection) {
        this.peer = peer;
        peer.command("semaphore", a -> {
            String limit = a.text(2);
            peer.put(a.text(0), limit.matches("\\d+")
                ? new InterProcessSemaphoreV2(connection.client(), a.text(1), Integer.parseInt(limit))
                : new InterProcessSemaphoreV2(connection.client(), a.text(1),
                        peer.get(limit, SharedCount.class)));
            return Command.DONE;
        });
        peer.command("lease", this::lease);
        peer.command("return", a -> {
            for (Lease lease : leases.remove(a.text(0))) {
                lease.close();
            }
            return Command.DONE;
        });
        peer.command("count", a -> {
            SharedCount count = new SharedCount(connection.client(), a.text(1), (int) a.number(2));
            peer.put(a.text(0), count);
            count.start();
            return Command.DONE;
        });
        peer.command("count-get", a -> Words.of(peer.get(a.text(0), SharedCount.class).getCount()));
        peer.command("count-set", a -> {
            peer.get(a.text(0), SharedCount.class).setCount((int) a.number(1));
            return Command.DONE;
        });
        peer.command("semaphore-mutex", a -> {
            peer.put(a.text(0), new InterProcessSemaphoreMutex(connection.client(), a.text(1)));
            return Command.DONE;
        });
    }

    /** The reply is the names of the leases' nodes. */
    private Words lease(Words arguments) throws Exception {
        Collection<Lease> got = peer.get(arguments.text(0), InterProcessSemaphoreV2.class)
            .acquire((int) arguments.number(2), arguments.number(3), TimeUnit.MILLISECONDS);
        if (got == null) {
            return Command.TIMEOUT;
        }
        leases.put(arguments.text(1), got);
        return new Words().addAll(got.stream().map(Lease::getNodeName).toList());
    }
}
