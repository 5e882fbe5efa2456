package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import org.junit.jupiter.api.BeforeEach;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;

/**
 * The last fencing token of a lock is in a key that rlockd lets expire and Redisson counts up.
 * Front ends that keep it for different times, in a database of their own: their watchdogs
 * remember leases of other tests for too short a time.
 */
final class FencingCounterTest extends Interop {
    private static final String FLAG = "--fencing-ttl-ms";
    private static final int DATABASE = 1;
    /** As short as they may be: a counter lasts as long as its lease is remembered. */
    private static final long SHORT_MS = 1000;

    private static Fronts shared;

    private record Fronts(Rest forgetful, Rest usual, Rest forEver, RedissonClient java) {
    }

    private Fronts fronts;

    @Override
    String object() {
        return "RFencedLock";
    }

    @BeforeEach
    void startFronts() throws IOException {
        synchronized (FencingCounterTest.class) {
            if (shared == null) {
                assumeTrue(World.knows(FLAG), "this rlockd has no " + FLAG);
                assumeTrue(!world.topology.isCluster(), "a cluster has one database only");
                shared = new Fronts(
                    world.startFront("front-forgetful", DATABASE, SHORT_MS,
                        FLAG, "" + SHORT_MS),
                    world.startFront("front-usual", DATABASE, SHORT_MS),
                    world.startFront("front-for-ever", DATABASE, SHORT_MS, FLAG, "0"),
                    World.newClient(world.topology, DATABASE, ""));
            }
            fronts = shared;
        }
    }

    private static long restsToken(Rest front, String name) {
        Lease lease = new RestLock(front, name, "lock").lease();
        long token = lease.acquire("ttl_ms", SHORT_MS).expect(201).number("fencing_token");
        lease.release(); // on a busy machine it is over already
        return token;
    }

    private long javasToken(String name) {
        RFencedLock lock = fronts.java.getFencedLock(name);
        long token = lock.lockAndGetToken();
        lock.unlock();
        return token;
    }

    private static long grown(long token, long last) {
        assertTrue(token > last, token + " after " + last);
        return token;
    }

    /** In ms; -1: it does not expire; -2: there is none. */
    private long counterLasts(String name) {
        return fronts.java.getBucket(companion("redisson_lock_token", name)).remainTimeToLive();
    }

    private void awaitEndOfCounter(String name) {
        eventually("the counter expires", CONDITION_MS, () -> counterLasts(name) == -2,
            () -> "" + counterLasts(name));
    }

    @BothWays
    void tokensGrowAcrossTheEndOfTheCounter() {
        String name = newName();
        long last = 0;
        for (int i = 0; i < 2; i++) {
            last = grown(restsToken(fronts.forgetful, name), last);
            awaitEndOfCounter(name);
        }
        last = grown(restsToken(fronts.usual, name), last);
        last = grown(javasToken(name), last);
        assertTrue(counterLasts(name) > LEASE_MS, "Java counts up what will expire");
        last = grown(restsToken(fronts.usual, name), last);
        last = grown(javasToken(name), last);
        last = grown(restsToken(fronts.forgetful, name), last);
        awaitEndOfCounter(name);
        last = grown(restsToken(fronts.usual, name), last);
        grown(javasToken(name), last);
    }

    /** Java counts from 1 where there is no counter, so it needs one that does not end. */
    @BothWays
    void javasTokensGrowWhereNoCounterEnds() {
        String name = newName();
        long last = javasToken(name);
        for (int i = 0; i < 3; i++) {
            last = grown(restsToken(fronts.forEver, name), last);
            assertEquals(-1, counterLasts(name));
            last = grown(javasToken(name), last);
            last = grown(javasToken(name), last);
            assertEquals(-1, counterLasts(name));
        }
        last = grown(restsToken(fronts.usual, name), last);
        assertTrue(counterLasts(name) > LEASE_MS, "it would expire");
        last = grown(restsToken(fronts.forEver, name), last);
        assertEquals(-1, counterLasts(name));
        grown(javasToken(name), last);
    }
}
