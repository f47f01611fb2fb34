import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Nodes: create PATH DATA [MODE], get PATH, set PATH DATA, delete PATH, exists PATH, children PATH. */
final class TreeCommands {
    private final Connection connection;

    TreeCommands(Peer peer, Connection connection) {
        this.connection = connection;
        peer.command("create", a -> Words.of(client().create()
            .creatingParentContainersIfNeeded()
            .withMode(CreateMode.valueOf(a.text(2, "PERSISTENT")))
            .forPath(a.text(0), a.bytes(1))));
        peer.command("get", a -> Words.of((Object) client().getData().forPath(a.text(0))));
        peer.command("set", a -> {
            Stat stat = client().setData().forPath(a.text(0), a.bytes(1));
            return Words.of(stat.getVersion());
        });
        peer.command("delete", a -> {
            client().delete().forPath(a.text(0));
            return Command.DONE;
        });
        peer.command("exists", a -> Words.of(client().checkExists().forPath(a.text(0)) != null));
        peer.command("children", a -> new Words()
                .addAll(client().getChildren().forPath(a.text(0)).stream().sorted().toList()));
    }

    private CuratorFramework client() {
        return connection.client();
    }
}
