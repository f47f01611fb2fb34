import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/**
 * Nodes that stay: node NAME PATH MODE PROTECTED DATA, which waits until it is there and returns its path,
 * node-set NAME DATA, node-close NAME; ttl-node NAME PATH MILLISECONDS DATA, ttl-node-close NAME; member NAME PATH
 * ID DATA, member-set NAME DATA, members NAME, member-close NAME.
 */
final class NodeCommands {
    NodeCommands(Peer peer, Connection connection) {
        peer.command("node", a -> {
            PersistentNode node = new PersistentNode(connection.client(), CreateMode.valueOf(a.text(2)),
                    Boolean.parseBoolean(a.text(3)), a.text(1), a.bytes(4));
            peer.put(a.text(0), node);
            node.start();
            if (!node.waitForInitialCreate(1, TimeUnit.MINUTES)) {
                return Command.TIMEOUT;
            }
            return Words.of(node.getActualPath());
        });
        peer.command("node-set", a -> {
            peer.get(a.text(0), PersistentNode.class).setData(a.bytes(1));
            return Command.DONE;
        });
        peer.command("node-close", a -> {
            peer.remove(a.text(0), PersistentNode.class).close();
            return Command.DONE;
        });
        peer.command("ttl-node", a -> {
            PersistentTtlNode node = new PersistentTtlNode(connection.client(), a.text(1), a.number(2),
                    a.bytes(3));
            peer.put(a.text(0), node);
            node.start();
            return node.waitForInitialCreate(1, TimeUnit.MINUTES) ? Command.DONE : Command.TIMEOUT;
        });
        peer.command("ttl-node-close", a -> {
            peer.remove(a.text(0), PersistentTtlNode.class).close();
            return Command.DONE;
        });
        peer.command("member", a -> {
            GroupMember member = new GroupMember(connection.client(), a.text(1), a.text(2), a.bytes(3));
            peer.put(a.text(0), member);
            member.start();
            return Command.DONE;
        });
        peer.command("member-set", a -> {
            peer.get(a.text(0), GroupMember.class).setThisData(a.bytes(1));
            return Command.DONE;
        });
        peer.command("members", a -> {
            Map<String, byte[]> members = new TreeMap<>(
                    peer.get(a.text(0), GroupMember.class).getCurrentMembers());
            StringBuilder text = new StringBuilder();
            members.forEach((id, data) -> text.append(text.length() == 0 ? "" : " ").append(id).append('=')
                    .append(new String(data, StandardCharsets.UTF_8)));
            return Words.of(text.toString());
        });
        peer.command("member-close", a -> {
            peer.remove(a.text(0), GroupMember.class).close();
            return Command.DONE;
        });
    }
}
