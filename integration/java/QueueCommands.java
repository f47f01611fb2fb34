import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/**
 * Queues: queue NAME KIND PATH [LOCK-PATH] makes a producer, queue-consumer likewise a consumer, whose items
 * are events "queue NAME ITEM"; KIND is fifo, priority, delay or id. queue-put NAME ITEM [ARGUMENT],
 * queue-put-many NAME ITEM..., queue-put-numbered NAME PREFIX TIMES, queue-remove NAME ID, queue-close NAME.
 * simple-offer PATH ITEM, simple-poll PATH.
 */
final class QueueCommands {
    private static final QueueSerializer<byte[]> BYTES = new QueueSerializer<byte[]>() {
        @Override
        public byte[] serialize(byte[] item) {
            return item;
        }

        @Override
        public byte[] deserialize(byte[] bytes) {
            return bytes;
        }
    };

    private interface Put {
        void put(byte[] item, String argument) throws Exception;
    }

    private interface Close {
        void close() throws Exception;
    }

    private static final long CLOSE_MILLISECONDS = 10_000;

    private static final class Queue {
        final List<Thread> threads = new CopyOnWriteArrayList<>(); // that consume
        Put put;
        Close close;
        DistributedQueue<byte[]> fifo;
        DistributedIdQueue<byte[]> id;

        Thread thread(Runnable work) {
            Thread thread = new Thread(work, "queue");
            threads.add(thread);
            return thread;
        }

        /**
         * Closes it, and waits for its consumer, as Curator's close does not. If the client is closed before
         * a consumer without a lock path has ended, that handles an item which it leaves on the queue.
         */
        void close() throws Exception {
            close.close();
            for (Thread thread : threads) {
                thread.join(CLOSE_MILLISECONDS);
                if (thread.isAlive()) {
                    throw new IllegalStateException("the queue is closed, and its consumer goes on");
                }
            }
        }
    }

    private final Peer peer;
    private final Set<Queue> open = ConcurrentHashMap.newKeySet();

    QueueCommands(Peer peer, Connection connection) {
        this.peer = peer;
        peer.beforeClosing(() -> {
            for (Queue queue : open) {
                queue.close();
            }
        });
        peer.command("queue", a -> make(connection.client(), a, null));
        peer.command("queue-consumer", a -> make(connection.client(), a, new QueueConsumer<byte[]>() {
            @Override
            public void consumeMessage(byte[] item) {
                peer.event("queue", Words.of(a.text(0), item));
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        }));
        peer.command("queue-put", a -> {
            peer.get(a.text(0), Queue.class).put.put(a.bytes(1), a.text(2, ""));
            return Command.DONE;
        });
        peer.command("queue-put-numbered", a -> {
            Queue queue = peer.get(a.text(0), Queue.class);
            for (int i = 0; i < a.number(2); i++) {
                queue.put.put((a.text(1) + i).getBytes("UTF-8"), "");
            }
            return Command.DONE;
        });
        peer.command("queue-put-many", a -> {
            byte[][] items = new byte[a.size() - 1][];
            for (int i = 0; i < items.length; i++) {
                items[i] = a.bytes(i + 1);
            }
            peer.get(a.text(0), Queue.class).fifo.putMulti(new MultiItem<byte[]>() {
                private int next;

                @Override
                public byte[] nextItem() {
                    return next < items.length ? items[next++] : null;
                }
            });
            return Command.DONE;
        });
        peer.command("queue-remove", a -> Words.of(peer.get(a.text(0), Queue.class).id.remove(a.text(1))));
        peer.command("queue-close", a -> {
            Queue queue = peer.remove(a.text(0), Queue.class);
            open.remove(queue);
            queue.close();
            return Command.DONE;
        });
        peer.command("simple-offer", a -> {
            new SimpleDistributedQueue(connection.client(), a.text(0)).offer(a.bytes(1));
            return Command.DONE;
        });
        peer.command("simple-poll", a -> {
            byte[] item = new SimpleDistributedQueue(connection.client(), a.text(0)).poll();
            return item == null ? Command.TIMEOUT : Words.of(item);
        });
    }

    private Words make(CuratorFramework client, Words a, QueueConsumer<byte[]> consumer) throws Exception {
        Queue queue = new Queue();
        QueueBuilder<byte[]> builder = QueueBuilder.builder(client, consumer, BYTES, a.text(2))
                .threadFactory(queue::thread).putInBackground(false).finalFlushTime(0, TimeUnit.MILLISECONDS);
        if (a.size() > 3) {
            builder = builder.lockPath(a.text(3));
        }
        switch (a.text(1)) {
            case "priority":
                DistributedPriorityQueue<byte[]> priority = builder.buildPriorityQueue(0);
                queue.put = (item, argument) -> priority.put(item, Integer.parseInt(argument));
                queue.close = priority::close;
                priority.start();
                break;
            case "delay":
                DistributedDelayQueue<byte[]> delay = builder.buildDelayQueue();
                queue.put = (item, argument) -> delay.put(item, Long.parseLong(argument));
                queue.close = delay::close;
                delay.start();
                break;
            case "id":
                DistributedIdQueue<byte[]> id = builder.buildIdQueue();
                queue.put = id::put;
                queue.close = id::close;
                queue.id = id;
                id.start();
                break;
            default:
                DistributedQueue<byte[]> fifo = builder.buildQueue();
                queue.put = (item, argument) -> fifo.put(item);
                queue.close = fifo::close;
                queue.fifo = fifo;
                fifo.start();
        }
        peer.put(a.text(0), queue);
        open.add(queue);
        return Command.DONE;
    }
}
