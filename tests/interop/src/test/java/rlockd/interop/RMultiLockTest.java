package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

final class RMultiLockTest extends MultiLockLosses {
    @Override
    String object() {
        return "RedissonMultiLock";
    }

    @Override
    RLock member(RedissonClient client, String name) {
        return client.getLock(name);
    }

    /**
     * While it collects, what Java has lasts twice its wait; when it has all, they get their
     * lease, of which nobody is told. Who began to wait before that finds out by polling.
     */
    @JavaToRest
    void restFindsOutAboutJavasLease() throws Exception {
        String[] ab = newNames(2);
        Lease inTheWay = held(one(ab[1]).lease());
        Going<Long> java = go(() -> {
            assertTrue(java(world.java, ab).tryLock(WAIT_MS, 1500, MILLISECONDS));
            return now(); // and never lets go
        });
        eventually("Java holds the first one", CONDITION_MS, () -> isLocked(ab[0]));
        assertLeft(2 * WAIT_MS,
            one(ab[0]).look().number("remaining_ms"));
        Going<Long> waiter = restWaits(ab[0]);
        long start = now();
        inTheWay.release().expect(200);
        assertIn(waiter, start, 1490, java.await(WAIT_MS) - start + 1500 + POLL_MS + SOON_MS);
    }

    /** Java may take locks of several kinds together; REST takes them one by one. */
    @BothWays
    void membersOfSeveralKinds() throws Exception {
        String[] abc = newNames(3);
        RLock lock = world.java.getMultiLock(world.java.getLock(abc[0]),
            world.java.getFencedLock(abc[1]), world.java.getReadWriteLock(abc[2]).writeLock());
        Lease writes = held(new RestLock(world.front, abc[2], "write").lease());
        assertFalse(lock.tryLock());
        assertFree(abc[0], abc[1]);
        writes.release().expect(200);
        lock.lock(LEASE_MS, MILLISECONDS);
        rest(abc[0], abc[1]).lease().acquire("ttl_ms", LEASE_MS).expect(423);
        Lease reads = new RestLock(world.front, abc[2], "read").lease();
        Going<Rest.Answer> waits = go(() ->
            reads.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        one(abc[2]).awaitWaiters(1, waits);
        long javas = one(abc[1]).look().number("fencing_token");
        long start = now();
        lock.unlock();
        assertBetween(0, AT_ONCE_MS, waits.tookMs(start));
        waits.await(0).expect(201);
        reads.release().expect(200);
        Lease lease = rest(abc[0], abc[1]).lease();
        Rest.Answer granted = lease.acquire("ttl_ms", LEASE_MS).expect(201);
        assertTrue(granted.number("locks.1.fencing_token") > javas);
        lease.release().expect(200);
    }

    @RestToJava
    void asManyAsThereMayBe() throws Exception {
        String[] names = newNames(32);
        Lease lease = held(rest(names).lease());
        Going<Long> all = javaWaits(names);
        for (String name : names) {
            assertFalse(member(world.java, name).tryLock(), name);
        }
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, all);
    }

    @BothWays
    void namesInUtf8AndWithBraces() throws Exception {
        handsOverBothWays(world.java, world.front, newNames(2, " Straße/日本 %2F+?#&=,"));
        handsOverBothWays(world.java, world.front, newNames(2, ":{42}:x"));
        handsOverBothWays(world.java, world.front, newNames(2, "{"));
    }

    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        String[] ab = newNames(2);
        handsOverBothWays(world.prefixedJava, world.prefixedFront, ab);
        RLock prefixed = java(world.prefixedJava, ab);
        prefixed.lock(LEASE_MS, MILLISECONDS);
        held(rest(ab).lease()).release().expect(200); // without the prefix: other locks
        Rest.Answer refused = new RestMultiLock(world.prefixedFront, kind(), ab).lease()
            .acquire().expect(423);
        assertEquals(ab[0], refused.string("lock"));
        prefixed.unlock();
    }

    private void handsOverBothWays(RedissonClient client, Rest front, String[] ab)
        throws Exception {
        RLock java = java(client, ab);
        java.lock(LEASE_MS, MILLISECONDS);
        Lease lease = new RestMultiLock(front, kind(), ab).lease();
        Going<Rest.Answer> restWaits = go(() ->
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        new RestLock(front, ab[1], kind()).awaitWaiters(1, restWaits);
        long start = now();
        java.unlock();
        assertBetween(0, AT_ONCE_MS, restWaits.tookMs(start));
        assertEquals(ab[1], restWaits.await(0).expect(201).string("locks.1.lock"));
        Going<Long> javaWaits = javaWaits(java(client, ab));
        javaWaits.staysOut(200);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, javaWaits);
    }
}
