import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;

/**
 * Revocation: revocable NAME, for a mutex that is not acquired yet, and revoke PATH of a node. The event
 * "revoked NAME" tells that somebody wants the lock.
 */
final class RevocationCommands {
    RevocationCommands(Peer peer, Connection connection) {
        peer.command("revocable", a -> {
            String name = a.text(0);
            peer.get(name, InterProcessMutex.class)
                    .makeRevocable(lock -> peer.event("revoked", Words.of(name)));
            return Command.DONE;
        });
        peer.command("revoke", a -> {
            Revoker.attemptRevoke(connection.client(), a.text(0));
            return Command.DONE;
        });
    }
}
