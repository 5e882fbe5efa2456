package rlockd.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/** What all tests share: a private Redis, two front ends, two Java clients. */
final class World {
    /** Java's lockWatchdogTimeout and ours. */
    static final long WATCHDOG_MS = 4000 * Interop.PATIENCE;
    /** For so long rlockd remembers what is over. */
    static final long RETRY_WINDOW_MS = 60_000;
    static final String PREFIX = "shop:";

    private static final Path DIR = Path.of(System.getProperty("interop.dir"));
    private static World shared;

    final Topology topology = Topology.ofThisRun();
    final Rest front;
    final Rest otherFront;
    final Rest prefixedFront;
    final RedissonClient java;
    final RedissonClient otherJava;
    final RedissonClient prefixedJava;
    private final List<Redis> masters;
    private final List<Redis> servers;

    static synchronized World shared() {
        if (shared == null) {
            shared = new World();
        }
        return shared;
    }

    private World() {
        try {
            topology.start(Files.createDirectories(DIR.resolve("redis")));
            front = startFront("front-1");
            otherFront = startFront("front-2");
            prefixedFront = startFront("front-prefixed", "--key-prefix", PREFIX);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        masters = topology.masters();
        servers = topology.servers();
        java = newClient(topology, 0, "");
        otherJava = newClient(topology, 0, "");
        prefixedJava = newClient(topology, 0, PREFIX);
        warmUp();
    }

    /** Whether the Redisson that runs is older than this release. */
    static boolean isBefore(int major, int minor) {
        String[] version = System.getProperty("interop.redisson").split("\\.");
        int difference = Integer.compare(Integer.parseInt(version[0]), major);
        return difference < 0
            || (difference == 0 && Integer.parseInt(version[1]) < minor);
    }

    /** Classes and connections that nobody should wait for later. */
    private void warmUp() {
        RLock lock = java.getLock("warm-up");
        lock.lock(10, TimeUnit.SECONDS);
        new RestLock(front, "warm-up", "lock").lease().acquire("wait_ms", 10).expect(423);
        Thread waiter = new Thread(() -> {
            RLock other = otherJava.getLock("warm-up");
            other.lock(10, TimeUnit.SECONDS);
            other.unlock();
        });
        waiter.start();
        Interop.nap(200);
        lock.unlock();
        try {
            waiter.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether the rlockd that runs has this setting. */
    static boolean knows(String flag) {
        try {
            Path help = Files.createTempFile("rlockd-interop-", ".help");
            try {
                Processes.start(help, List.of(binary(), "--help")).waitFor();
                return Files.readString(help).lines().anyMatch(
                    line -> line.strip().startsWith(flag + " "));
            } finally {
                Files.delete(help);
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String binary() {
        String binary = System.getenv("RLOCKD_BIN");
        if (binary == null) {
            throw new IllegalStateException("RLOCKD_BIN names no rlockd");
        }
        return binary;
    }

    private Rest startFront(String name, String... flags) throws IOException {
        return startFront(name, 0, RETRY_WINDOW_MS, flags);
    }

    /** One more front end, with keys in this database of Redis. */
    Rest startFront(String name, int database, long retryWindowMs, String... flags)
        throws IOException {
        Path log = DIR.resolve(name + ".log");
        List<String> command = new ArrayList<>(List.of(binary(), "--listen", "127.0.0.1:0",
            "--redis", topology.url(database),
            "--watchdog-timeout-ms", "" + WATCHDOG_MS,
            "--retry-window-ms", "" + retryWindowMs,
            "--max-wait-ms", "" + Interop.WAIT_MS));
        command.addAll(List.of(flags));
        Process process = Processes.start(log, command);
        Rest rest = new Rest(URI.create("http://" + listening(process, log)), process);
        Interop.eventually("ready: " + name, Interop.CONDITION_MS,
            () -> rest.get("/readyz").status() == 200);
        return rest;
    }

    private static String listening(Process process, Path log) throws IOException {
        Pattern line = Pattern.compile("\"msg\": ?\"listening\".*?\"listen\": ?\"([^\"]+)\"");
        while (process.isAlive()) {
            Matcher found = line.matcher(Files.readString(log));
            if (found.find()) {
                return found.group(1);
            }
            Interop.nap(20);
        }
        throw new IllegalStateException("rlockd ended: " + Files.readString(log));
    }

    static RedissonClient newClient(Topology topology, int database, String prefix) {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS).setThreads(8).setNettyThreads(8);
        BaseConfig<?> server = topology.configure(config, database);
        if (!prefix.isEmpty()) {
            mapNames(config, server, prefix);
        }
        return Redisson.create(config);
    }

    /** With Redisson 4 NameMapper moved to another package, and its setter to Config. */
    private static void mapNames(Config config, BaseConfig<?> server, String prefix) {
        try {
            Object target = Arrays.stream(Config.class.getMethods())
                .anyMatch(method -> method.getName().equals("setNameMapper")) ? config : server;
            Class<?> mapper = target.getClass().getMethod("getNameMapper").getReturnType();
            Method setter = target.getClass().getMethod("setNameMapper", mapper);
            setter.invoke(target, Proxy.newProxyInstance(
                mapper.getClassLoader(), new Class<?>[] {mapper},
                (proxy, method, args) -> switch (method.getName()) {
                    case "map" -> args[0] == null ? null : prefix + args[0];
                    case "unmap" -> args[0] == null ? null
                        : args[0].toString().substring(prefix.length());
                    default -> throw new UnsupportedOperationException(method.getName());
                }));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Every key of the database and its PTTL: -1 has none. Without markers, which front ends
     * refresh as long as they run, without the census, which they write as long, and without
     * the index of queues, in which a queue may stay for 15 s after its last place.
     */
    Map<String, Long> keys() {
        Map<String, Long> keys = new LinkedHashMap<>();
        for (Redis master : masters) {
            for (Object line : (List<?>) master.ask("EVAL",
                "local lines = {} "
                + "for i, key in ipairs(redis.call('keys', '*')) do "
                + "  lines[i] = redis.call('pttl', key) .. ' ' .. key end "
                + "return lines", "0")) {
                String[] words = line.toString().split(" ", 2);
                keys.put(words[1], Long.parseLong(words[0]));
            }
        }
        keys.keySet().removeIf(key -> key.startsWith("rlockd:marker")
            || key.startsWith("rlockd:census:") || key.startsWith("rlockd:queues:"));
        return keys;
    }

    /** Whether the watchdog visits the queue of this fair lock. */
    boolean isVisited(String name) {
        return masters.stream().anyMatch(master -> 1L == (Long) master.ask("EVAL",
            "for _, key in ipairs(redis.call('keys', 'rlockd:queues:*')) do "
            + "  if redis.call('zscore', key, ARGV[1]) then return 1 end end "
            + "return 0", "0", name));
    }

    /** Clients that are subscribed to a channel; in a cluster rlockd is so in both ways. */
    int listeners(String channel) {
        return Math.max(countListeners("NUMSUB", channel),
            topology.isCluster() ? countListeners("SHARDNUMSUB", channel) : 0);
    }

    private int countListeners(String command, String channel) {
        return servers.stream().mapToInt(server -> ((Long)
            ((List<?>) server.ask("PUBSUB", command, channel)).get(1)).intValue()).sum();
    }

    /** All that somebody is subscribed to. */
    List<String> channels() {
        List<String> channels = new ArrayList<>();
        for (Redis server : servers) {
            addAll(channels, server.ask("PUBSUB", "CHANNELS"));
            if (topology.isCluster()) {
                addAll(channels, server.ask("PUBSUB", "SHARDCHANNELS"));
            }
        }
        return channels;
    }

    private static void addAll(List<String> channels, Object found) {
        ((List<?>) found).forEach(channel -> channels.add(channel.toString()));
    }

    void setKey(String key, String value, long ttlMs) {
        java.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_WRITE,
            "redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])", RScript.ReturnType.VALUE,
            List.of(key), value, "" + ttlMs);
    }
}
