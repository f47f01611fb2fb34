import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/**
 * Read-write locks: rwlock NAME PATH makes the locks NAME.read and NAME.write for the commands of {@link
 * LockCommands}. To hold both they have to be acquired on the same thread.
 */
final class ReadWriteCommands {
    ReadWriteCommands(Peer peer, Connection connection) {
        peer.command("rwlock", a -> {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(connection.client(), a.text(1));
            peer.put(a.text(0) + ".read", lock.readLock());
            peer.put(a.text(0) + ".write", lock.writeLock());
            return Command.DONE;
        });
    }
}
