package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.condition.DisabledIfEnvironmentVariable;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/**
 * RedLock of Java and a quorum of rlockd on the same three masters, which are of this class. One
 * test at a time: one of them stops a master.
 */
@Execution(ExecutionMode.SAME_THREAD)
@DisabledIfEnvironmentVariable(named = "INTEROP_TOPOLOGY", matches = ".+")
final class RedLockTest extends Interop {
    private static final int SERVERS = 3;
    /** Of one command at a server that is away, beside which the others have to be asked. */
    private static final int AWAY_MS = 500 * (int) PATIENCE;

    private static Quorum quorum;

    @Override
    String object() {
        return "RedissonRedLock";
    }

    /** Servers, one Java client for each of them, and a front end. */
    private static final class Quorum {
        final List<Topology> servers = new ArrayList<>();
        final List<RedissonClient> clients = new ArrayList<>();
        final Rest front;

        Quorum(World world) throws IOException {
            for (int i = 0; i < SERVERS; i++) {
                servers.add(new Topology(Topology.Kind.SINGLE, host(world.topology.host(), i)));
                start(i);
                clients.add(Redisson.create(config(servers.get(i).host())));
            }
            front = world.startFront("front-quorum", 0, World.RETRY_WINDOW_MS, "--redis",
                servers.stream().map(server -> server.host() + ":6379")
                    .collect(Collectors.joining(",", "redis-quorum://", "")));
        }

        /** Addresses beside the one that this run has by itself. */
        private static String host(String own, int number) {
            String[] parts = own.split("\\.");
            int second = Integer.parseInt(parts[1]) - 64;
            parts[1] = "" + (second + new int[] {0, 128, 192}[number]);
            return String.join(".", parts);
        }

        private static Config config(String host) {
            Config config = new Config();
            config.setLockWatchdogTimeout(World.WATCHDOG_MS).setThreads(4).setNettyThreads(4);
            config.useSingleServer().setAddress("redis://" + host + ":6379")
                .setConnectionMinimumIdleSize(2).setConnectionPoolSize(8)
                .setTimeout(AWAY_MS).setConnectTimeout(AWAY_MS).setRetryAttempts(0);
            return config;
        }

        /** Empty, and as if its quarantine were over. */
        void start(int number) {
            String host = servers.get(number).host();
            try {
                servers.get(number).start(Files.createDirectories(
                    Path.of(System.getProperty("interop.dir")).resolve("quorum-" + number)));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            Redis redis = new Redis(host, 6379);
            String id = redis.ask("INFO", "server").toString().lines()
                .filter(line -> line.startsWith("run_id:")).findFirst().orElseThrow()
                .substring("run_id:".length());
            redis.ask("HSET", "rlockd:marker", "run_id", id, "since", "1", "kept", "1",
                "at", "1", "layout", "1");
        }

        void stop(int number) {
            try {
                new Redis(servers.get(number).host(), 6379).ask("SHUTDOWN", "NOSAVE");
            } catch (UncheckedIOException e) {
                return; // the connection has ended, and so has the server
            }
        }

        String state(int number) {
            return String.valueOf(front.get("/readyz").member("redis.members." + number
                + ".state"));
        }

        void awaitAll() {
            eventually("all servers are up", CONDITION_MS, () ->
                state(0).equals("up") && state(1).equals("up") && state(2).equals("up"));
        }

        /** At how many servers the lock is held. */
        int held(String name) {
            return (int) servers.stream().filter(server ->
                new Redis(server.host(), 6379).ask("EXISTS", name).equals(1L)).count();
        }
    }

    @BeforeEach
    void startQuorum() throws IOException {
        synchronized (RedLockTest.class) {
            if (quorum == null) {
                quorum = new Quorum(world);
            }
        }
        quorum.awaitAll();
    }

    @AfterEach
    void restartWhatIsDown() {
        for (int i = 0; i < SERVERS; i++) {
            if (!Redis.answers(quorum.servers.get(i).host(), 6379)) {
                quorum.start(i);
            }
        }
    }

    private static RLock java(String name) {
        return new RedissonRedLock(quorum.clients.stream().map(client -> client.getLock(name))
            .toArray(RLock[]::new));
    }

    private static RestLock rest(String name) {
        return new RestLock(quorum.front, name, "lock");
    }

    private static Going<Long> javaWaits(String name) {
        return go(() -> {
            RLock lock = java(name);
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS));
            long at = now();
            lock.unlock();
            return at;
        });
    }

    private static void javaThenRest(String name) throws Exception {
        RLock lock = java(name);
        assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS));
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(423);
        Going<Rest.Answer> waits = go(() ->
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        waits.staysOut(300);
        long start = now();
        lock.unlock();
        assertBetween(0, SOON_MS, waits.tookMs(start));
        waits.await(0).expect(201);
        lease.release().expect(200);
    }

    private static void restThenJava(String name) throws Exception {
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        assertFalse(java(name).tryLock());
        Going<Long> waits = javaWaits(name);
        waits.staysOut(300);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waits);
        eventually("nobody holds", CONDITION_MS, () ->
            rest(name).lease().look().status() == 404
                || Boolean.FALSE.equals(rest(name).look().member("locked")));
    }

    @JavaToRest
    void javaKeepsRestOut() throws Exception {
        String name = newName();
        javaThenRest(name);
        eventually("it is free everywhere", CONDITION_MS, () -> quorum.held(name) == 0);
    }

    @RestToJava
    void restKeepsJavaOut() throws Exception {
        String name = newName();
        restThenJava(name);
        eventually("it is free everywhere", CONDITION_MS, () -> quorum.held(name) == 0);
    }

    /** Each of the three Java clients has an id of its own, so no holder has a majority. */
    @JavaToRest
    void javasHoldIsUndecided() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Rest.Answer look = rest(name).look();
        assertEquals(false, look.member("locked"), look.text());
        assertEquals(true, look.member("quorum.undecided"), look.text());
        assertEquals(1L, look.number("quorum.held"), look.text());
        assertEquals(null, look.member("fencing_token"), look.text());
        lock.unlock();
    }

    @BothWays
    void oneServerIsDown() throws Exception {
        quorum.stop(2);
        eventually("it is down", CONDITION_MS, () -> quorum.state(2).equals("down"));
        javaThenRest(newName());
        restThenJava(newName());
    }

    /** An RLock at one server is no majority. */
    @JavaToRest
    void anRLockAtOneServerBlocksNobody() throws Exception {
        String name = newName();
        RLock one = quorum.clients.get(0).getLock(name);
        one.lock(LEASE_MS, MILLISECONDS);
        Rest.Answer look = rest(name).look();
        assertEquals(false, look.member("locked"), look.text());
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        lease.release().expect(200);
        one.unlock();
    }
}
