import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryNTimes;

/**
 * Counters: long NAME PATH [LOCK-PATH], long-add NAME DELTA TIMES, long-get NAME, long-initialize NAME NUMBER;
 * integer-add PATH DELTA; ids NAME LONG BLOCK, ids-next NAME; value NAME PATH SEED, value-get NAME,
 * value-set NAME TEXT, value-try NAME TEXT.
 *
 * Additions are repeated until they succeed: Curator's own tries end.
 */
final class CounterCommands {
    private final Peer peer;

    CounterCommands(Peer peer, Connection connection) {
        this.peer = peer;
        peer.command("long", a -> {
            RetryNTimes policy = new RetryNTimes(10, 1);
            peer.put(a.text(0), a.size() < 3
                ? new DistributedAtomicLong(connection.client(), a.text(1), policy)
                : new DistributedAtomicLong(connection.client(), a.text(1), new RetryNTimes(1, 1),
                        PromotedToLock.builder().lockPath(a.text(2)).retryPolicy(policy).build()));
            return Command.DONE;
        });
        peer.command("long-add", a -> {
            DistributedAtomicLong number = peer.get(a.text(0), DistributedAtomicLong.class);
            AtomicValue<Long> value = null;
            for (long left = a.number(2); left > 0;) {
                value = number.add(a.number(1));
                if (value.succeeded()) {
                    left--;
                }
            }
            return Words.of(value.postValue());
        });
        peer.command("long-get", a -> Words.of(
                peer.get(a.text(0), DistributedAtomicLong.class).get().postValue()));
        peer.command("long-initialize", a -> Words.of(
                peer.get(a.text(0), DistributedAtomicLong.class).initialize(a.number(1))));
        peer.command("integer-add", a -> Words.of(
                new DistributedAtomicInteger(connection.client(), a.text(0), new RetryNTimes(10, 1))
                    .add((int) a.number(1)).postValue()));
        peer.command("ids", a -> {
            peer.put(a.text(0), new CachedAtomicLong(peer.get(a.text(1), DistributedAtomicLong.class),
                    (int) a.number(2)));
            return Command.DONE;
        });
        peer.command("ids-next", this::next);
        peer.command("value", a -> {
            SharedValue value = new SharedValue(connection.client(), a.text(1), a.bytes(2));
            peer.put(a.text(0), value);
            value.start();
            return Command.DONE;
        });
        peer.command("value-get", a -> Words.of(peer.get(a.text(0), SharedValue.class).getValue()));
        peer.command("value-set", a -> {
            peer.get(a.text(0), SharedValue.class).setValue(a.bytes(1));
            return Command.DONE;
        });
        peer.command("value-try", a -> {
            SharedValue value = peer.get(a.text(0), SharedValue.class);
            return Words.of(value.trySetValue(value.getVersionedValue(), a.bytes(1)));
        });
    }

    private Words next(Words arguments) throws Exception {
        AtomicValue<Long> value;
        do {
            value = peer.get(arguments.text(0), CachedAtomicLong.class).next();
        } while (!value.succeeded());
        return Words.of(value.preValue());
    }
}
