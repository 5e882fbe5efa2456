package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

final class RFairLockTest extends LockScenarios {
    /** Java's wait where it is in vain: long enough to see Java wait. */
    private static final long GIVE_UP_MS = 3000 * PATIENCE;
    /** A place of a request that is gone lasts for 15 s; and a visit of the watchdog. */
    private static final long GONE_MS = 15_000 + 6000 * PATIENCE;

    @Override
    RLock java(RedissonClient client, String name) {
        return client.getFairLock(name);
    }

    @Override
    String kind() {
        return "fair";
    }

    /** Without a queue it looks like any other lock. */
    @Override
    String kindOfJavas() {
        return "lock";
    }

    /** Redisson's fair lock does not complain. */
    @Override
    void unlockLost(RLock lost) {
        lost.unlock();
    }

    /** Before 3.32 a client in the queue did not hear of it. */
    @Override
    @RestToJava
    void javaHearsThatRestsLeaseWasShortened() throws Exception {
        assumeTrue(!World.isBefore(3, 32), "this Redisson waits for as long as it was told");
        super.javaHearsThatRestsLeaseWasShortened();
    }

    /**
     * Before 3.32 a client that asked again just before the lease ended was told a time below 0
     * by its own script, and slept until a message came.
     */
    @Override
    @RestToJava
    void javaGetsInWhenRestsLeaseExpires() throws Exception {
        assumeTrue(!World.isBefore(3, 32), "this Redisson may sleep past the end of the lease");
        super.javaGetsInWhenRestsLeaseExpires();
    }

    /** Before 3.52 Redisson did not map the names of the queue: the order is not kept then. */
    @Override
    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        if (!World.isBefore(3, 52)) {
            super.nameMapperIsOurKeyPrefix();
            return;
        }
        assumeTrue(!world.topology.isCluster(), "Redisson's own lock fails: CROSSSLOT");
        String name = newName();
        Lease lease = rest(world.prefixedFront, name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Boolean> java = go(() ->
            java(world.prefixedJava, name).tryLock(GIVE_UP_MS, LEASE_MS, MILLISECONDS));
        eventually("Java waits where nobody looks", CONDITION_MS,
            () -> java.ended()
                || world.keys().containsKey("redisson_lock_queue:{" + name + "}"));
        assertEquals(false, java.await(WAIT_MS));
        lease.release().expect(200);
    }

    private void javaGetsInBehind(Lease holder, String name) throws Exception {
        Going<?> java = go(() -> {
            RLock lock = java(world.java, name);
            assertTrue(lock.tryLock(330, 5, SECONDS));
            lock.unlock();
            return null;
        });
        rest(name).awaitWaiters(2);
        long start = now();
        holder.release().expect(200);
        assertBetween(0, GONE_MS, java.tookMs(start));
    }

    /** The client of the place was answered, and does not come back. */
    @RestToJava
    void javaGetsInBehindAnAnsweredRequest() throws Exception {
        String name = newName();
        Lease holder = rest(name).lease();
        holder.acquire("ttl_ms", 600_000).expect(201);
        rest(world.otherFront, name).lease().acquire("wait_ms", 500).expect(423);
        javaGetsInBehind(holder, name);
    }

    /** No request is left that would remove the place. */
    @RestToJava
    void javaGetsInBehindAKilledFrontEnd() throws Exception {
        String name = newName();
        Lease holder = rest(name).lease();
        holder.acquire("ttl_ms", 600_000).expect(201);
        Rest doomed = world.startFront("front-killed", 0, World.RETRY_WINDOW_MS);
        Lease dead = rest(doomed, name).lease();
        go(() -> dead.acquire("wait_ms", WAIT_MS));
        rest(name).awaitWaiters(1);
        eventually("the place is in the index", CONDITION_MS, () -> world.isVisited(name));
        doomed.kill();
        javaGetsInBehind(holder, name);
    }

    private Going<?> javaQueues(String name, String who, List<String> order) {
        return go(() -> {
            RLock lock = java(who.endsWith("1") ? world.java : world.otherJava, name);
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), who);
            order.add(who);
            lock.unlock();
            return null;
        });
    }

    private Going<?> restQueues(String name, String who, List<String> order) {
        return go(() -> {
            Lease lease = rest(who.endsWith("1") ? world.front : world.otherFront, name).lease();
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
            order.add(who);
            lease.release().expect(200);
            return null;
        });
    }

    /** Whoever came first is served first, whatever it speaks. */
    @BothWays
    void aMixedQueueKeepsItsOrder() throws Exception {
        String name = newName();
        List<String> came = List.of("java 1", "rest 1", "rest 2", "java 2", "rest 1", "java 1",
            "java 2", "rest 2");
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        List<Going<?>> all = new ArrayList<>();
        Lease first = rest(name).lease();
        first.acquire("ttl_ms", LEASE_MS).expect(201);
        for (String who : came) {
            all.add(who.startsWith("java") ? javaQueues(name, who, served)
                : restQueues(name, who, served));
            rest(name).awaitWaiters(all.size());
        }
        first.release().expect(200);
        for (Going<?> one : all) {
            one.await(WAIT_MS);
        }
        assertEquals(came, served);
    }

    /** Java waiters are told apart by their holder, ours by their lease. */
    @JavaToRest
    void theQueueIsShown() throws Exception {
        String name = newName();
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<?> java = javaQueues(name, "java 2", served);
        rest(name).awaitWaiters(1);
        Going<?> rest = restQueues(name, "rest 2", served);
        rest(name).awaitWaiters(2);
        Rest.Answer state = rest(name).look();
        assertTrue(state.string("waiters.0.redisson_holder").startsWith(world.otherJava.getId()));
        assertEquals(36, state.string("waiters.1.lease_id").length());
        lock.unlock();
        java.await(WAIT_MS);
        rest.await(WAIT_MS);
        assertEquals(List.of("java 2", "rest 2"), served);
    }

    /** A Java client that gives up takes the place of nobody else. */
    @JavaToRest
    void javaGivesUpWaiting() throws Exception {
        String name = newName();
        Lease first = rest(name).lease();
        first.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Boolean> java = go(() ->
            java(world.otherJava, name).tryLock(GIVE_UP_MS, LEASE_MS, MILLISECONDS));
        rest(name).awaitWaiters(1);
        Lease next = rest(world.otherFront, name).lease();
        Going<Rest.Answer> rest = go(() ->
            next.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        rest(name).awaitWaiters(2);
        assertEquals(false, java.await(WAIT_MS));
        rest(name).awaitWaiters(1);
        long start = now();
        first.release().expect(200);
        assertBetween(0, AT_ONCE_MS, rest.tookMs(start));
        rest.await(0).expect(201);
        next.release().expect(200);
    }
}
