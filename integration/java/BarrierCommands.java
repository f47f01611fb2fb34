import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/**
 * Barriers: barrier NAME PATH, barrier-set NAME, barrier-remove NAME, barrier-wait NAME MILLISECONDS; double
 * NAME PATH QUANTITY, enter NAME MILLISECONDS, leave NAME MILLISECONDS.
 */
final class BarrierCommands {
    BarrierCommands(Peer peer, Connection connection) {
        peer.command("barrier", a -> {
            peer.put(a.text(0), new DistributedBarrier(connection.client(), a.text(1)));
            return Command.DONE;
        });
        peer.command("barrier-set", a -> {
            peer.get(a.text(0), DistributedBarrier.class).setBarrier();
            return Command.DONE;
        });
        peer.command("barrier-remove", a -> {
            peer.get(a.text(0), DistributedBarrier.class).removeBarrier();
            return Command.DONE;
        });
        peer.command("barrier-wait", a ->
            reply(peer.get(a.text(0), DistributedBarrier.class)
                    .waitOnBarrier(a.number(1), TimeUnit.MILLISECONDS)));
        peer.command("double", a -> {
            peer.put(a.text(0), new DistributedDoubleBarrier(connection.client(), a.text(1),
                    (int) a.number(2)));
            return Command.DONE;
        });
        peer.command("enter", a ->
            reply(peer.get(a.text(0), DistributedDoubleBarrier.class)
                    .enter(a.number(1), TimeUnit.MILLISECONDS)));
        peer.command("leave", a ->
            reply(peer.get(a.text(0), DistributedDoubleBarrier.class)
                    .leave(a.number(1), TimeUnit.MILLISECONDS)));
    }

    private static Words reply(boolean done) {
        return done ? Command.DONE : Command.TIMEOUT;
    }
}
