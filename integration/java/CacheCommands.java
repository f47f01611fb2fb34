import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.zookeeper.data.Stat;

/**
 * Caches: cache NAME KIND PATH MILLISECONDS, of the kind CuratorCache, TreeCache or PathChildrenCache, which
 * starts one and waits until it says that it is initialized, and tells the nanoseconds that this took; cached
 * NAME tells path, data, version and mzxid of every node, cached-size NAME how many there are; close-cache
 * NAME. heap tells the bytes in use after garbage collection. set-compressed PATH DATA writes as Curator does
 * when told to compress.
 */
final class CacheCommands {
    private static final int COLLECTIONS = 4;

    private final Connection connection;

    CacheCommands(Peer peer, Connection connection) {
        this.connection = connection;
        peer.command("cache", a -> {
            CountDownLatch initialized = new CountDownLatch(1);
            long begin = System.nanoTime();
            Copy copy = start(a.text(1), a.text(2), initialized);
            peer.put(a.text(0), copy);
            return initialized.await(a.number(3), TimeUnit.MILLISECONDS) ? Words.of(System.nanoTime() - begin)
                    : Command.TIMEOUT;
        });
        peer.command("cached", a -> {
            Words words = new Words();
            peer.get(a.text(0), Copy.class).nodes().forEach(node -> {
                Stat stat = node.getStat();
                byte[] data = node.getData();
                words.add(node.getPath()).add(data == null ? "" : data).add(stat.getVersion())
                        .add(stat.getMzxid());
            });
            return words;
        });
        peer.command("cached-size", a -> Words.of(peer.get(a.text(0), Copy.class).nodes().count()));
        peer.command("close-cache", a -> {
            peer.remove(a.text(0), Copy.class).close();
            return Command.DONE;
        });
        peer.command("heap", a -> Words.of(heap()));
        peer.command("set-compressed", a -> {
            client().setData().compressed().forPath(a.text(0), a.bytes(1));
            return Command.DONE;
        });
    }

    /** What the three kinds have in common. */
    private interface Copy {
        Stream<ChildData> nodes();

        void close() throws Exception;
    }

    private CuratorFramework client() {
        return connection.client();
    }

    private Copy start(String kind, String path, CountDownLatch initialized) throws Exception {
        return switch (kind) {
            case "CuratorCache" -> curatorCache(path, initialized);
            case "TreeCache" -> treeCache(path, initialized);
            case "PathChildrenCache" -> pathChildrenCache(path, initialized);
            default -> throw new IllegalArgumentException("there is no kind of cache " + kind);
        };
    }

    private Copy curatorCache(String path, CountDownLatch initialized) {
        CuratorCache cache = CuratorCache.build(client(), path);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(initialized::countDown)
                .build());
        cache.start();
        return new Copy() {
            @Override
            public Stream<ChildData> nodes() {
                return cache.stream();
            }

            @Override
            public void close() {
                cache.close();
            }
        };
    }

    @SuppressWarnings("deprecation")
    private Copy treeCache(String path, CountDownLatch initialized) throws Exception {
        TreeCache cache = TreeCache.newBuilder(client(), path).build();
        cache.getListenable().addListener((c, event) -> {
            if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                initialized.countDown();
            }
        });
        cache.start();
        return new Copy() {
            @Override
            public Stream<ChildData> nodes() {
                Iterable<ChildData> all = cache::iterator;
                return StreamSupport.stream(all.spliterator(), false);
            }

            @Override
            public void close() {
                cache.close();
            }
        };
    }

    @SuppressWarnings("deprecation")
    private Copy pathChildrenCache(String path, CountDownLatch initialized) throws Exception {
        PathChildrenCache cache = new PathChildrenCache(client(), path, true);
        cache.getListenable().addListener((c, event) -> {
            if (event.getType() == PathChildrenCacheEvent.Type.INITIALIZED) {
                initialized.countDown();
            }
        });
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        return new Copy() {
            @Override
            public Stream<ChildData> nodes() {
                return cache.getCurrentData().stream();
            }

            @Override
            public void close() throws Exception {
                cache.close();
            }
        };
    }

    private static long heap() throws InterruptedException {
        Runtime runtime = Runtime.getRuntime();
        long used = Long.MAX_VALUE;
        for (int i = 0; i < COLLECTIONS; i++) {
            System.gc();
            Thread.sleep(50);
            used = Math.min(used, runtime.totalMemory() - runtime.freeMemory());
        }
        return used;
    }
}
