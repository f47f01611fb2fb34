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

    private static final class Queue {
        Put put;
        Close close;
        DistributedQueue<byte[]> fifo;
        DistributedIdQueue<byte[]> id;
    }

    private final Peer peer;

    QueueCommands(Peer peer, Connection connection) {
        this.peer = peer;
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
            peer.remove(a.text(0), Queue.class).close.close();
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
        QueueBuilder<byte[]> builder = QueueBuilder.builder(client, consumer, BYTES, a.text(2))
                .putInBackground(false).finalFlushTime(0, TimeUnit.MILLISECONDS);
        if (a.size() > 3) {
            builder = builder.lockPath(a.text(3));
        }
        Queue queue = new Queue();
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
        return Command.DONE;
    }
}
