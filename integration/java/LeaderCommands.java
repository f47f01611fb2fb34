import java.util.Collection;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/**
 * Elections: latch NAME PATH ID, latch-close NAME MODE, latch-leads NAME, latch-token NAME,
 * latch-participants NAME; selector NAME PATH ID, selector-resign NAME, selector-close NAME,
 * selector-participants NAME.
 *
 * The events "leader NAME" and "follower NAME" tell of the terms. A selector requeues itself.
 */
final class LeaderCommands {
    private final Peer peer;
    private final Connection connection;

    LeaderCommands(Peer peer, Connection connection) {
        this.peer = peer;
        this.connection = connection;
        peer.command("latch", this::latch);
        peer.command("latch-close", a -> {
            peer.get(a.text(0), LeaderLatch.class).close(LeaderLatch.CloseMode.valueOf(a.text(1)));
            return Command.DONE;
        });
        peer.command("latch-leads", a -> Words.of(peer.get(a.text(0), LeaderLatch.class).hasLeadership()));
        peer.command("latch-token", a -> Words.of(Long.toString(connection.client().checkExists()
                .forPath(peer.get(a.text(0), LeaderLatch.class).getOurPath()).getCzxid())));
        peer.command("latch-participants", a ->
                ids(peer.get(a.text(0), LeaderLatch.class).getParticipants()));
        peer.command("selector", this::selector);
        peer.command("selector-resign", a -> {
            peer.get(a.text(0), Selector.class).resign();
            return Command.DONE;
        });
        peer.command("selector-close", a -> {
            peer.get(a.text(0), Selector.class).selector.close();
            return Command.DONE;
        });
        peer.command("selector-participants", a ->
                ids(peer.get(a.text(0), Selector.class).selector.getParticipants()));
    }

    private Words latch(Words arguments) throws Exception {
        String name = arguments.text(0);
        LeaderLatch latch = new LeaderLatch(connection.client(), arguments.text(1), arguments.text(2));
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                peer.event("leader", Words.of(name));
            }

            @Override
            public void notLeader() {
                peer.event("follower", Words.of(name));
            }
        });
        peer.put(name, latch);
        latch.start();
        return Command.DONE;
    }

    private Words selector(Words arguments) {
        Selector selector = new Selector(arguments.text(0), arguments.text(1), arguments.text(2));
        peer.put(arguments.text(0), selector);
        selector.selector.start();
        return Command.DONE;
    }

    /** The ids in the order of the line; the leader's must be the first, and nobody else's. */
    private static Words ids(Collection<Participant> participants) {
        Words ids = new Words();
        for (Participant participant : participants) {
            if (participant.isLeader() != (ids.size() == 0)) {
                throw new IllegalStateException("the leader is not the first: " + participants);
            }
            ids.add(participant.getId());
        }
        return ids;
    }

    /** Leads until it is told to resign, or interrupted. */
    private final class Selector extends LeaderSelectorListenerAdapter {
        final LeaderSelector selector;
        private final String name;
        private volatile CountDownLatch term = new CountDownLatch(0);

        Selector(String name, String path, String id) {
            this.name = name;
            selector = new LeaderSelector(connection.client(), path, this);
            selector.setId(id);
            selector.autoRequeue();
        }

        /** Ends the term, if there is one: a later term is not ended by it, though this one was interrupted. */
        void resign() {
            term.countDown();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            CountDownLatch resigned = new CountDownLatch(1);
            term = resigned;
            peer.event("leader", Words.of(name));
            try {
                resigned.await();
            } finally {
                peer.event("follower", Words.of(name));
            }
        }
    }
}
