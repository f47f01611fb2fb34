import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;

/** The ACLs of docs/security.md for contenders that log in by digest: what ContenderACL is in Go. */
final class Contenders implements ACLProvider {
    private final List<ACL> acl = new ArrayList<>(ZooDefs.Ids.CREATOR_ALL_ACL);

    Contenders(Iterable<String> others) {
        for (String other : others) {
            acl.add(new ACL(Perms.READ | Perms.CREATE | Perms.DELETE, new Id("digest", other)));
        }
    }

    @Override
    public List<ACL> getDefaultAcl() {
        return acl;
    }

    @Override
    public List<ACL> getAclForPath(String path) {
        return acl;
    }
}
