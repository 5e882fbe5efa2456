package rlockd.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/** The Redis of all tests: INTEROP_TOPOLOGY says which kind, `host` is an address of our own. */
record Topology(Kind kind, String host) {
    /** One server; a master with a replica and three Sentinels; a cluster of three masters. */
    enum Kind { SINGLE, SENTINEL, CLUSTER }

    private static final int PORT = 6379;
    private static final int SENTINEL_PORT = 26379;
    private static final int MASTERS = 3;
    private static final int SENTINELS = 3;
    private static final int IDLE_CONNECTIONS = 4;
    private static final String MASTER_NAME = "mymaster";
    private static final int START_MS = 30_000;

    static Topology ofThisRun() {
        String kind = System.getenv().getOrDefault("INTEROP_TOPOLOGY", "");
        long pid = ProcessHandle.current().pid();
        return new Topology(Kind.valueOf(kind.isEmpty() ? "SINGLE" : kind.toUpperCase()),
            "127." + (64 + (pid >> 16 & 63)) + "." + (pid >> 8 & 255) + "." + (pid & 255));
    }

    /** What text() of a topology said. */
    static Topology of(String text) {
        String[] words = text.split(" ");
        return new Topology(Kind.valueOf(words[0]), words[1]);
    }

    String text() {
        return kind + " " + host;
    }

    boolean isCluster() {
        return kind == Kind.CLUSTER;
    }

    /** For --redis. A cluster has database 0 only. */
    String url(int database) {
        return switch (kind) {
            case SINGLE -> "redis://" + host + ":" + PORT + "/" + database;
            case SENTINEL -> "redis-sentinel://" + ports(SENTINEL_PORT, SENTINELS)
                .map(port -> host + ":" + port).collect(Collectors.joining(","))
                + "/" + MASTER_NAME + "/" + database;
            case CLUSTER -> "redis-cluster://" + host + ":" + PORT + "," + host + ":"
                + (PORT + 1);
        };
    }

    BaseConfig<?> configure(Config config, int database) {
        return switch (kind) {
            case SINGLE -> config.useSingleServer()
                .setAddress("redis://" + host + ":" + PORT)
                .setDatabase(database)
                .setConnectionMinimumIdleSize(IDLE_CONNECTIONS);
            case SENTINEL -> config.useSentinelServers()
                .setMasterName(MASTER_NAME)
                .setDatabase(database)
                .addSentinelAddress(ports(SENTINEL_PORT, SENTINELS)
                    .map(port -> "redis://" + host + ":" + port).toArray(String[]::new))
                .setMasterConnectionMinimumIdleSize(IDLE_CONNECTIONS)
                .setSlaveConnectionMinimumIdleSize(IDLE_CONNECTIONS);
            case CLUSTER -> config.useClusterServers()
                .addNodeAddress("redis://" + host + ":" + PORT)
                .setMasterConnectionMinimumIdleSize(IDLE_CONNECTIONS);
        };
    }

    // ---- servers

    /** Each server, the masters of a cluster; the first of those with a Sentinel. */
    List<Redis> masters() {
        return connections(isCluster() ? MASTERS : 1);
    }

    /** Those, and replicas. */
    List<Redis> servers() {
        return connections(serverCount());
    }

    private List<Redis> connections(int count) {
        return ports(PORT, count).map(port -> new Redis(host, port)).toList();
    }

    private int serverCount() {
        return switch (kind) {
            case SINGLE -> 1;
            case SENTINEL -> 2;
            case CLUSTER -> MASTERS;
        };
    }

    private static Stream<Integer> ports(int first, int count) {
        return IntStream.range(first, first + count).boxed();
    }

    void start(Path dir) throws IOException {
        for (int port : ports(PORT, serverCount()).toList()) {
            List<String> flags = new ArrayList<>();
            if (isCluster()) {
                flags.addAll(List.of("--cluster-enabled", "yes",
                    "--cluster-announce-ip", host));
            } else if (port > PORT) {
                flags.addAll(List.of("--replicaof", host, "" + PORT));
            }
            startServer(dir.resolve("redis-" + port), port, flags);
        }
        if (isCluster()) {
            formCluster();
        } else if (kind == Kind.SENTINEL) {
            startSentinels(dir);
        }
    }

    private void startServer(Path dir, int port, List<String> flags) throws IOException {
        Files.createDirectories(dir);
        List<String> command = new ArrayList<>(List.of("redis-server",
            "--port", "" + port, "--bind", host, "--dir", dir.toString(),
            "--save", "", "--appendonly", "no",
            "--replica-announce-ip", host, "--repl-diskless-sync-delay", "0"));
        command.addAll(flags);
        await(Processes.start(dir.resolve("redis.log"), command), port);
    }

    private void await(Process process, int port) {
        while (!Redis.answers(host, port)) {
            if (!process.isAlive()) {
                throw new IllegalStateException("no server at " + host + ":" + port);
            }
            Interop.nap(20);
        }
    }

    private void formCluster() {
        List<Redis> nodes = masters();
        int slots = 16384;
        for (int i = 0; i < MASTERS; i++) {
            nodes.get(i).ask("CLUSTER", "SET-CONFIG-EPOCH", "" + (i + 1));
            List<String> command = new ArrayList<>(List.of("CLUSTER", "ADDSLOTS"));
            IntStream.range(slots * i / MASTERS, slots * (i + 1) / MASTERS)
                .forEach(slot -> command.add("" + slot));
            nodes.get(i).ask(command.toArray(String[]::new));
            nodes.get(0).ask("CLUSTER", "MEET", host, "" + (PORT + i));
        }
        Interop.eventually("a cluster", START_MS, () -> nodes.stream()
            .map(node -> node.ask("CLUSTER", "INFO").toString())
            .allMatch(info -> info.contains("cluster_state:ok")
                && info.contains("cluster_known_nodes:" + MASTERS)));
    }

    private void startSentinels(Path dir) throws IOException {
        List<Redis> sentinels = new ArrayList<>();
        for (int port : ports(SENTINEL_PORT, SENTINELS).toList()) {
            Path file = dir.resolve("sentinel-" + port + ".conf");
            Files.write(file, List.of("port " + port, "bind " + host, "dir " + dir,
                "sentinel announce-ip " + host,
                "sentinel monitor " + MASTER_NAME + " " + host + " " + PORT + " 2",
                // No server fails here, however busy the machine is.
                "sentinel down-after-milliseconds " + MASTER_NAME + " 120000"));
            await(Processes.start(dir.resolve("sentinel-" + port + ".log"),
                List.of("redis-server", file.toString(), "--sentinel")), port);
            sentinels.add(new Redis(host, port));
        }
        Interop.eventually("Sentinels that know each other", START_MS, () -> sentinels.stream()
            .allMatch(sentinel ->
                list(sentinel, "SENTINELS") == SENTINELS - 1 && list(sentinel, "REPLICAS") == 1));
    }

    private static int list(Redis sentinel, String what) {
        return ((List<?>) sentinel.ask("SENTINEL", what, MASTER_NAME)).size();
    }
}
