import java.io.Closeable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.x.discovery.DownInstancePolicy;
import org.apache.curator.x.discovery.ProviderStrategy;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;
import org.apache.curator.x.discovery.details.ServiceCacheListener;
import org.apache.curator.x.discovery.strategies.RandomStrategy;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;
import org.apache.curator.x.discovery.strategies.StickyStrategy;

/**
 * Services: discovery NAME BASE FULL WATCHED, where FULL says that "enabled" is written and WATCHED that own
 * instances follow their nodes; discovery-close NAME; service-register NAME FIELD..., service-update and
 * service-unregister likewise; service-names NAME; services NAME SERVICE; service NAME SERVICE ID. A FIELD is
 * KEY=VALUE: name, id, address, port, ssl, time, type, uri, enabled, and of the payload text, number, long, list,
 * map (both of "a,b") or info (VERSION,WEIGHT).
 *
 * service-cache NAME DISCOVERY SERVICE, whose changes are events "services NAME INSTANCE..."; service-cached NAME;
 * service-cache-close NAME. provider NAME DISCOVERY SERVICE STRATEGY ERRORS MILLISECONDS FILTER; provide NAME, which
 * tells an id; provide-all NAME; provider-error NAME ID; provider-close NAME. FILTER is the start of ids.
 *
 * An instance is told as in {@link #text}.
 */
final class DiscoveryCommands {
    private final Peer peer;

    DiscoveryCommands(Peer peer, Connection connection) {
        this.peer = peer;
        peer.command("discovery", a -> {
            ServiceDiscovery<Object> discovery = ServiceDiscoveryBuilder.builder(Object.class)
                    .client(connection.client()).basePath(a.text(1))
                    .serializer(new JsonInstanceSerializer<>(Object.class, !Boolean.parseBoolean(a.text(2))))
                    .watchInstances(Boolean.parseBoolean(a.text(3))).build();
            peer.put(a.text(0), discovery);
            discovery.start();
            return Command.DONE;
        });
        peer.command("service-register", a -> {
            discovery(a).registerService(instance(a.from(1)));
            return Command.DONE;
        });
        peer.command("service-update", a -> {
            discovery(a).updateService(instance(a.from(1)));
            return Command.DONE;
        });
        peer.command("service-unregister", a -> {
            discovery(a).unregisterService(instance(a.from(1)));
            return Command.DONE;
        });
        peer.command("service-names", a ->
                new Words().addAll(discovery(a).queryForNames().stream().sorted().toList()));
        peer.command("services", a -> texts(discovery(a).queryForInstances(a.text(1))));
        peer.command("service", a -> {
            ServiceInstance<Object> instance = discovery(a).queryForInstance(a.text(1), a.text(2));
            return instance == null ? Command.TIMEOUT : Words.of(text(instance));
        });
        for (String kind : List.of("discovery", "service-cache", "provider")) {
            peer.command(kind + "-close", a -> {
                peer.remove(a.text(0), Closeable.class).close();
                return Command.DONE;
            });
        }
        peer.command("service-cache", this::cache);
        peer.command("service-cached", a -> texts(cached(a.text(0)).getInstances()));
        peer.command("provider", this::provider);
        peer.command("provide", a -> {
            ServiceInstance<Object> instance = provided(a.text(0)).getInstance();
            return instance == null ? Command.TIMEOUT : Words.of(instance.getId());
        });
        peer.command("provide-all", a -> new Words().addAll(
                provided(a.text(0)).getAllInstances().stream().map(ServiceInstance::getId).sorted().toList()));
        peer.command("provider-error", a -> {
            ServiceProvider<Object> provider = provided(a.text(0));
            for (ServiceInstance<Object> instance : provider.getAllInstances()) {
                if (instance.getId().equals(a.text(1))) {
                    provider.noteError(instance);
                    return Command.DONE;
                }
            }
            return Command.TIMEOUT;
        });
    }

    @SuppressWarnings("unchecked")
    private ServiceDiscovery<Object> discovery(Words a) {
        return peer.get(a.text(0), ServiceDiscovery.class);
    }

    @SuppressWarnings("unchecked")
    private ServiceCache<Object> cached(String name) {
        return peer.get(name, ServiceCache.class);
    }

    @SuppressWarnings("unchecked")
    private ServiceProvider<Object> provided(String name) {
        return peer.get(name, ServiceProvider.class);
    }

    private Words cache(Words a) throws Exception {
        String name = a.text(0);
        ServiceCache<Object> cache = discovery(a.from(1)).serviceCacheBuilder().name(a.text(2)).build();
        peer.put(name, cache);
        cache.addListener(new ServiceCacheListener() {
            @Override
            public void cacheChanged() {
                peer.event("services", Words.of(name).addAll(texts(cache.getInstances())));
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        });
        cache.start();
        return Command.DONE;
    }

    private Words provider(Words a) throws Exception {
        ProviderStrategy<Object> strategy = switch (a.text(3)) {
            case "RoundRobin" -> new RoundRobinStrategy<>();
            case "Random" -> new RandomStrategy<>();
            case "Sticky" -> new StickyStrategy<>(new RandomStrategy<>());
            default -> throw new IllegalArgumentException("there is no strategy " + a.text(3));
        };
        String prefix = a.text(6);
        ServiceProvider<Object> provider = discovery(a.from(1)).serviceProviderBuilder().serviceName(a.text(2))
                .providerStrategy(strategy)
                .downInstancePolicy(new DownInstancePolicy(a.number(5), TimeUnit.MILLISECONDS, (int) a.number(4)))
                .additionalFilter(instance -> instance.getId().startsWith(prefix)).build();
        peer.put(a.text(0), provider);
        provider.start();
        return Command.DONE;
    }

    private static ServiceInstance<Object> instance(Words fields) throws Exception {
        ServiceInstanceBuilder<Object> builder = ServiceInstance.builder();
        builder.address(null); // what it would guess is this machine's
        for (String field : fields) {
            int at = field.indexOf('=');
            String value = field.substring(at + 1);
            switch (field.substring(0, at)) {
                case "name" -> builder.name(value);
                case "id" -> builder.id(value);
                case "address" -> builder.address(value);
                case "port" -> builder.port(Integer.parseInt(value));
                case "ssl" -> builder.sslPort(Integer.parseInt(value));
                case "time" -> builder.registrationTimeUTC(Long.parseLong(value));
                case "type" -> builder.serviceType(ServiceType.valueOf(value));
                case "uri" -> builder.uriSpec(new UriSpec(value));
                case "enabled" -> builder.enabled(Boolean.parseBoolean(value));
                default -> builder.payload(payload(field.substring(0, at), value));
            }
        }
        return builder.build();
    }

    private static Object payload(String kind, String value) {
        switch (kind) {
            case "text":
                return value;
            case "number":
                return Integer.parseInt(value);
            case "long":
                return Long.parseLong(value);
            case "list":
                return new ArrayList<>(List.of(value.split(",")));
            case "map":
                Map<String, Object> map = new LinkedHashMap<>();
                for (String key : value.split(",")) {
                    map.put(key, map.size());
                }
                return map;
            case "info":
                Info info = new Info();
                info.version = value.split(",")[0];
                info.weight = Integer.parseInt(value.split(",")[1]);
                return info;
            default:
                throw new IllegalArgumentException("an instance has no " + kind);
        }
    }

    private static Words texts(Iterable<ServiceInstance<Object>> instances) {
        List<String> all = new ArrayList<>();
        instances.forEach(instance -> all.add(text(instance)));
        all.sort(null);
        return new Words().addAll(all);
    }

    /** Everything that an instance says, as SERVICE/ID ADDRESS PORT SSL TYPE TIME ENABLED URI CLASS PAYLOAD. */
    private static String text(ServiceInstance<Object> instance) {
        Object payload = instance.getPayload();
        String said = payload instanceof Info info ? info.version + "," + info.weight : String.valueOf(payload);
        UriSpec spec = instance.getUriSpec();
        return String.join(" ", instance.getName() + "/" + instance.getId(), instance.getAddress(),
                String.valueOf(instance.getPort()), String.valueOf(instance.getSslPort()),
                String.valueOf(instance.getServiceType()), String.valueOf(instance.getRegistrationTimeUTC()),
                String.valueOf(instance.isEnabled()), spec == null ? "null" : instance.buildUriSpec(),
                payload == null ? "null" : payload.getClass().getSimpleName(), said);
    }
}
