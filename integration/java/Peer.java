import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A program on Java Curator that does what it is told, line by line.
 *
 * <pre>
 * request   ID COMMAND ARGUMENT...
 * reply     ID ok WORD...  |  ID timeout  |  ID error CLASS MESSAGE
 * event     ! NAME WORD...
 * </pre>
 *
 * Requests run at the same time, and replies come as they are done; see {@link Command#thread} for those that
 * must not. It ends with "quit", which closes the session, or when its input ends, which does not.
 */
public final class Peer {
    private final Map<String, Command> commands = new HashMap<>();
    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new HashMap<>(); // only the reading thread uses it
    private final List<Ending> endings = new ArrayList<>(); // only the reading thread uses it
    private final Connection connection = new Connection(this);

    /** What has to end before the client is closed. */
    interface Ending {
        void end() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer();
        new TreeCommands(peer, peer.connection);
        new LockCommands(peer, peer.connection);
        new ReadWriteCommands(peer, peer.connection);
        new RevocationCommands(peer, peer.connection);
        new SemaphoreCommands(peer, peer.connection);
        new CounterCommands(peer, peer.connection);
        new QueueCommands(peer, peer.connection);
        new NodeCommands(peer, peer.connection);
        new DiscoveryCommands(peer, peer.connection);
        new LeaderCommands(peer, peer.connection);
        new BarrierCommands(peer, peer.connection);
        new CompressCommands(peer, peer.connection);
        new CacheCommands(peer, peer.connection);
        new LoadCommands(peer);
        new RawCommands(peer);
        peer.serve();
        Runtime.getRuntime().halt(0);
    }

    void command(String name, Command command) {
        commands.put(name, command);
    }

    /** Has something done when the peer quits, before the client is closed. */
    void beforeClosing(Ending ending) {
        endings.add(ending);
    }

    /** Keeps an object under a name that later requests use. */
    void put(String name, Object object) {
        if (objects.putIfAbsent(name, object) != null) {
            throw new IllegalArgumentException("the name " + name + " is taken");
        }
    }

    <T> T get(String name, Class<T> type) {
        Object object = objects.get(name);
        if (!type.isInstance(object)) {
            throw new IllegalArgumentException("there is no " + type.getSimpleName() + " of the name "
                    + name);
        }
        return type.cast(object);
    }

    /** Forgets an object and returns it. */
    <T> T remove(String name, Class<T> type) {
        T object = get(name, type);
        objects.remove(name);
        return object;
    }

    /** Tells something that nobody asked for. */
    void event(String name, Words words) {
        print("!", name, words);
    }

    private void serve() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in,
                StandardCharsets.ISO_8859_1));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Words request = Words.parse(line);
            String id = request.text(0);
            String name = request.text(1);
            Words arguments = request.from(2);
            if (name.equals("quit")) {
                for (Ending ending : endings) {
                    ending.end();
                }
                connection.close();
                print(id, "ok", Command.DONE);
                return;
            }
            dispatch(id, name, arguments);
        }
    }

    private void dispatch(String id, String name, Words arguments) {
        Command command = commands.get(name);
        if (command == null) {
            failed(id, new IllegalArgumentException("there is no command " + name));
            return;
        }
        Runnable task = () -> run(id, command, arguments);
        String thread;
        try {
            thread = command.thread(arguments);
        } catch (RuntimeException e) {
            failed(id, e);
            return;
        }
        if (thread == null) {
            new Thread(task, "request " + id).start();
        } else {
            threads.computeIfAbsent(thread, t -> Executors.newSingleThreadExecutor(r -> new Thread(r, t)))
                    .execute(task);
        }
    }

    private void run(String id, Command command, Words arguments) {
        try {
            Words reply = command.run(arguments);
            if (reply == Command.TIMEOUT) {
                print(id, "timeout", Command.DONE);
            } else {
                print(id, "ok", reply);
            }
        } catch (Throwable t) {
            t.printStackTrace();
            failed(id, t);
        }
    }

    private void failed(String id, Throwable t) {
        print(id, "error", Words.of(t.getClass().getName(), t.getMessage()));
    }

    private synchronized void print(String id, String kind, Words words) {
        String rest = words.size() == 0 ? "" : " " + words;
        System.out.print(id + " " + kind + rest + "\n");
        System.out.flush();
    }
}
