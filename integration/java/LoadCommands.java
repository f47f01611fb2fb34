import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/**
 * Contenders that take turns as fast as they can: load NAME SERVER WORK PATH SESSIONS CONTENDERS LEASES
 * MICROSECONDS, load-mark NAME, load-stop NAME.
 *
 * WORK is mutex, shared (one lock object for all), semaphore, semaphore-mutex or counter. Contenders are
 * spread over the sessions; each holds for so many microseconds. load-mark replies with what happened since
 * the mark before: nanoseconds, cycles, nanoseconds of the processor, allocated bytes, grants that came while
 * others held all there is, the cycles of the slowest and the fastest contender, and the hand-overs in
 * nanoseconds, sorted: from the begin of a release to the next grant, or the additions.
 */
final class LoadCommands {
    LoadCommands(Peer peer) {
        peer.command("load", a -> {
            peer.put(a.text(0), new Load(a.text(1), a.text(2), a.text(3),
                    (int) a.number(4), (int) a.number(5), (int) a.number(6), a.number(7)));
            return Command.DONE;
        });
        peer.command("load-mark", a -> peer.get(a.text(0), Load.class).mark());
        peer.command("load-stop", a -> {
            peer.remove(a.text(0), Load.class).stop();
            return Command.DONE;
        });
    }

    /** What a contender does at its turn; the hold runs while it has what it waited for. */
    private interface Turn {
        void take(Runnable hold) throws Exception;
    }

    private static final class Load {
        private final List<CuratorFramework> clients = new ArrayList<>();
        private final List<Thread> threads = new ArrayList<>();
        private final int leases;
        private final long hold;
        private final AtomicInteger holders = new AtomicInteger();
        private final AtomicInteger overlaps = new AtomicInteger();
        private final AtomicLong released = new AtomicLong();
        private final AtomicLong[] cycles;
        private final long[] before;
        private final long[] handOvers = new long[1 << 16];
        private int handedOver; // guarded by handOvers
        private long markedAt;
        private long cpuBefore;
        private long bytesBefore;
        private volatile boolean stopped;
        private volatile Exception failure;

        Load(String server, String work, String path,
                int sessions, int contenders, int leases, long microseconds) throws Exception {
            this.leases = leases;
            this.hold = TimeUnit.MICROSECONDS.toNanos(microseconds);
            for (int i = 0; i < sessions; i++) {
                CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(server)
                    .sessionTimeoutMs(30_000)
                    .connectionTimeoutMs(15_000)
                    .retryPolicy(new ExponentialBackoffRetry(100, 5))
                    .ensembleTracker(false)
                    .build();
                client.start();
                client.blockUntilConnected(30, TimeUnit.SECONDS);
                clients.add(client);
            }
            InterProcessLock shared = new InterProcessMutex(clients.get(0), path);
            cycles = new AtomicLong[contenders];
            before = new long[contenders];
            for (int i = 0; i < contenders; i++) {
                AtomicLong mine = cycles[i] = new AtomicLong();
                Turn turn = turn(work, shared, clients.get(i % sessions), path);
                Thread thread = new Thread(() -> run(turn, mine), "contender " + i);
                threads.add(thread);
            }
            threads.forEach(Thread::start);
            mark();
        }

        private Turn turn(String work, InterProcessLock shared, CuratorFramework client, String path) {
            switch (work) {
                case "mutex":
                    return locked(new InterProcessMutex(client, path));
                case "shared":
                    return locked(shared);
                case "semaphore-mutex":
                    return locked(new InterProcessSemaphoreMutex(client, path));
                case "semaphore":
                    InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, leases);
                    return h -> {
                        Lease lease = semaphore.acquire();
                        h.run();
                        lease.close();
                    };
                case "counter":
                    DistributedAtomicLong counter = new DistributedAtomicLong(client, path,
                            new RetryNTimes(Integer.MAX_VALUE, 0));
                    return h -> {
                        long began = System.nanoTime();
                        if (!counter.increment().succeeded()) {
                            throw new IllegalStateException("the counter gave up");
                        }
                        took(System.nanoTime() - began);
                        if (hold > 0) {
                            LockSupport.parkNanos(hold);
                        }
                    };
                default:
                    throw new IllegalArgumentException("no such work: " + work);
            }
        }

        private static Turn locked(InterProcessLock lock) {
            return h -> {
                lock.acquire();
                h.run();
                lock.release();
            };
        }

        private void run(Turn turn, AtomicLong mine) {
            try {
                while (!stopped) {
                    turn.take(this::held);
                    mine.incrementAndGet();
                }
            } catch (Exception e) {
                if (!stopped) {
                    failure = e;
                }
            }
        }

        private void held() {
            long last = released.get();
            if (last != 0) {
                took(System.nanoTime() - last);
            }
            if (holders.incrementAndGet() > leases) {
                overlaps.incrementAndGet();
            }
            if (hold > 0) {
                LockSupport.parkNanos(hold);
            }
            holders.decrementAndGet();
            released.set(System.nanoTime());
        }

        /** Records how long a hand-over or an addition took. */
        private void took(long nanoseconds) {
            synchronized (handOvers) {
                handOvers[handedOver++ % handOvers.length] = nanoseconds;
            }
        }

        synchronized Words mark() throws Exception {
            if (failure != null) {
                throw failure;
            }
            long now = System.nanoTime();
            long sum = 0;
            long least = Long.MAX_VALUE;
            long most = 0;
            for (int i = 0; i < cycles.length; i++) {
                long all = cycles[i].get();
                long mine = all - before[i];
                before[i] = all;
                sum += mine;
                least = Math.min(least, mine);
                most = Math.max(most, mine);
            }
            long[] sorted;
            synchronized (handOvers) {
                sorted = Arrays.copyOf(handOvers, Math.min(handedOver, handOvers.length));
                handedOver = 0;
            }
            Arrays.sort(sorted);
            long cpu = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
            long bytes = 0;
            ThreadMXBean beans = (ThreadMXBean) ManagementFactory.getThreadMXBean();
            for (long each : beans.getThreadAllocatedBytes(beans.getAllThreadIds())) {
                bytes += Math.max(each, 0);
            }
            Words result = Words.of(now - markedAt, sum, cpu - cpuBefore, bytes - bytesBefore,
                    overlaps.getAndSet(0), least, most);
            markedAt = now;
            cpuBefore = cpu;
            bytesBefore = bytes;
            // A thousand of them, evenly spaced, are enough for any percentile.
            int step = Math.max(1, sorted.length / 1000);
            for (int i = 0; i < sorted.length; i += step) {
                result.add(sorted[i]);
            }
            if (sorted.length > 0) {
                result.add(sorted[sorted.length - 1]);
            }
            return result;
        }

        void stop() throws InterruptedException {
            stopped = true;
            for (Thread thread : threads) {
                thread.join();
            }
            clients.forEach(CuratorFramework::close);
        }
    }
}
