import org.apache.curator.framework.CuratorFramework;

/** Compressed data: compressed-create PATH DATA, compressed-set PATH DATA, compressed-get PATH. */
final class CompressCommands {
    private final Connection connection;

    CompressCommands(Peer peer, Connection connection) {
        this.connection = connection;
        peer.command("compressed-create", a ->
                Words.of(client().create().compressed().forPath(a.text(0), a.bytes(1))));
        peer.command("compressed-set", a ->
                Words.of(client().setData().compressed().forPath(a.text(0), a.bytes(1)).getVersion()));
        peer.command("compressed-get", a ->
                Words.of((Object) client().getData().decompressed().forPath(a.text(0))));
    }

    private CuratorFramework client() {
        return connection.client();
    }
}
