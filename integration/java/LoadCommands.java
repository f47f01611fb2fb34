import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/**
 * Contenders that take turns as fast as they can: load NAME SERVER WORK PATH SESSIONS CONTENDERS LEASES
 * MICROSECONDS, load-mark NAME, load-stop NAME.
 *
 * WORK is mutex, shared (one lock object for all), semaphore, semaphore-mutex, counter, simple, queue or barrier, as in
 * bench.Job. Contenders are spread over the sessions; each holds for so many microseconds. load-mark replies with what
 * happened since the mark before: nanoseconds, cycles, nanoseconds of the processor, allocated bytes, grants that came
 * while others held all there is, the cycles of the slowest and the fastest contender, the longest nanoseconds of a
 * contender between two cycles, and the hand-overs in nanoseconds, sorted: from the begin of a release to the next
 * grant, or without holds the times of the calls.
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

    private static final byte[] ITEM = "an item of a queue, of some bytes".getBytes(StandardCharsets.UTF_8);

    private static final class Load {
        private final List<CuratorFramework> clients = new ArrayList<>();
        private final List<Thread> threads = new ArrayList<>();
        private final int leases;
        private final long hold;
        private final AtomicInteger holders = new AtomicInteger();
        private final AtomicInteger overlaps = new AtomicInteger();
        private final AtomicLong released = new AtomicLong();
        private final AtomicLong[] cycles;
        private final AtomicLong[] ends; // by contender, of the latest cycle
        private final AtomicLong gap = new AtomicLong();
        private final List<Thread> producers = new ArrayList<>();
        private final List<AutoCloseable> open = new ArrayList<>();
        private final Semaphore room; // for items of a queue
        private final boolean hands;
        private volatile boolean producersStopped;
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
            hands = !List.of("counter", "simple", "queue", "barrier").contains(work);
            room = new Semaphore(16 * contenders);
            cycles = new AtomicLong[contenders];
            ends = new AtomicLong[contenders];
            before = new long[contenders];
            for (int i = 0; i < contenders; i++) {
                int mine = i;
                cycles[i] = new AtomicLong();
                ends[i] = new AtomicLong(System.nanoTime());
                Turn turn = turn(work, shared, clients.get(i % sessions), path, contenders);
                Thread thread = new Thread(() -> run(turn, mine), "contender " + i);
                threads.add(thread);
            }
            producers.forEach(Thread::start);
            threads.forEach(Thread::start);
            mark();
        }

        private Turn turn(String work, InterProcessLock shared, CuratorFramework client, String path,
                int contenders) throws Exception {
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
                        if (!counter.increment().succeeded()) {
                            throw new IllegalStateException("the counter gave up");
                        }
                        if (hold > 0) {
                            LockSupport.parkNanos(hold);
                        }
                    };
                case "simple":
                    SimpleDistributedQueue simple = new SimpleDistributedQueue(client, path);
                    produce(() -> simple.offer(ITEM));
                    return h -> {
                        simple.take();
                        room.release();
                    };
                case "queue":
                    return consumer(client, path);
                case "barrier": // members that use one path again can deadlock
                    int[] round = {0};
                    return h -> {
                        DistributedDoubleBarrier barrier =
                            new DistributedDoubleBarrier(client, path + "/" + round[0]++, contenders);
                        barrier.enter();
                        barrier.leave();
                    };
                default:
                    throw new IllegalArgumentException("no such work: " + work);
            }
        }

        private Turn consumer(CuratorFramework client, String path) throws Exception {
            Semaphore handled = new Semaphore(0);
            QueueConsumer<byte[]> consumer = new QueueConsumer<>() {
                @Override
                public void consumeMessage(byte[] item) {
                    handled.release();
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            };
            QueueSerializer<byte[]> bytes = new QueueSerializer<>() {
                @Override
                public byte[] serialize(byte[] item) {
                    return item;
                }

                @Override
                public byte[] deserialize(byte[] data) {
                    return data;
                }
            };
            DistributedQueue<byte[]> queue = QueueBuilder.builder(client, consumer, bytes, path).buildQueue();
            queue.start();
            open.add(queue);
            if (leases == 1) {
                produce(() -> queue.put(ITEM));
            } else {
                produce(() -> queue.putMulti(new MultiItem<>() {
                    private int left = leases;

                    @Override
                    public byte[] nextItem() {
                        return left-- > 0 ? ITEM : null;
                    }
                }));
            }
            return h -> {
                handled.acquire();
                room.release();
            };
        }

        private interface Put {
            void put() throws Exception;
        }

        private void produce(Put put) {
            producers.add(new Thread(() -> {
                try {
                    while (!producersStopped) {
                        if (room.tryAcquire(leases, 100, TimeUnit.MILLISECONDS)) {
                            put.put();
                        }
                    }
                } catch (Exception e) {
                    failure = e;
                }
            }, "producer"));
        }

        private static Turn locked(InterProcessLock lock) {
            return h -> {
                lock.acquire();
                h.run();
                lock.release();
            };
        }

        private void run(Turn turn, int mine) {
            try {
                while (!stopped) {
                    long began = System.nanoTime();
                    turn.take(this::held);
                    if (!hands) {
                        record(System.nanoTime() - began);
                    }
                    cycles[mine].incrementAndGet();
                    noteGap(mine);
                    ends[mine].set(System.nanoTime());
                }
            } catch (Exception e) {
                if (!stopped) {
                    failure = e;
                }
            }
        }

        private void noteGap(int mine) {
            gap.accumulateAndGet(System.nanoTime() - ends[mine].get(), Math::max);
        }

        private void record(long took) {
            synchronized (handOvers) {
                handOvers[handedOver++ % handOvers.length] = took;
            }
        }

        private void held() {
            long last = released.get();
            if (last != 0) {
                record(System.nanoTime() - last);
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
                noteGap(i); // of a contender that has not ended a cycle since
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
                    overlaps.getAndSet(0), least, most, gap.getAndSet(0));
            markedAt = now;
            cpuBefore = cpu;
            bytesBefore = bytes;
            // A thousand of them, evenly spaced, are enough for any percentile.
            int step = Math.max(1, sorted.length / 1000);
            for (int i = 0; i < sorted.length; i += step) {
                result.add(sorted[i]);
            }
            return result;
        }

        void stop() throws Exception {
            stopped = true;
            for (Thread thread : threads) {
                thread.join(1000);
                while (thread.isAlive()) { // it waits for a member that has stopped, or for an item of a stopped consumer
                    thread.interrupt();
                    thread.join(100);
                }
            }
            producersStopped = true; // now that no consumer waits for an item
            for (Thread thread : producers) {
                thread.join();
            }
            for (AutoCloseable each : open) {
                each.close();
            }
            clients.forEach(CuratorFramework::close);
        }
    }
}
