package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.redisson.api.RLock;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** What keeps locks that were taken together, and what becomes of them when it ends. */
abstract class MultiLockLosses extends MultiLockScenarios {
    // ---- force-unlock of one of them

    /** The lease is lost as a whole; what was left of it goes with the next request. */
    @JavaToRest
    void javasForceUnlockOfOneEndsRestsLease() throws Exception {
        String[] ab = newNames(2);
        Lease lease = held(rest(ab).lease());
        Going<Long> first = restWaits(oneRival(ab[0]).lease(), ab[0]);
        Going<Long> second = restWaits(oneRival(ab[1]).lease(), ab[1]);
        assertLetsIn(() -> assertTrue(member(world.java, ab[0]).forceUnlock()),
            AT_ONCE_MS, first);
        second.staysOut(300);
        assertLetsIn(() -> assertEquals("expired",
            lease.renew(LEASE_MS).expect(410).string("reason")), AT_ONCE_MS, second);
        lease.release().expect(410);
    }

    /** With a session the watchdog notices, and the session is told. */
    @JavaToRest
    void javasForceUnlockOfOneIsToldToTheSession() throws Exception {
        String[] ab = newNames(2);
        Session session = new Session(world.front, LEASE_MS);
        Lease lease = rest(ab).lease(session);
        lease.acquire().expect(201);
        Going<Long> second = javaWaitsForOne(ab[1]);
        second.staysOut(300);
        assertLetsIn(() -> assertTrue(member(world.java, ab[0]).forceUnlock()),
            World.WATCHDOG_MS + SOON_MS, second);
        Rest.Answer told = session.keepAlive().expect(200);
        assertEquals("expired", told.string("lost.0.reason"));
        assertEquals(null, told.member("leases.0"));
        lease.acquire().expect(410);
        session.end();
    }

    @RestToJava
    void restsForceUnlockOfOneEndsRestsLease() throws Exception {
        String[] ab = newNames(2);
        Lease lease = held(rest(ab).lease());
        Going<Long> waiter = javaWaits(ab);
        waiter.staysOut(300);
        assertEquals(true, one(ab[0]).forceUnlock().member("unlocked"));
        waiter.staysOut(300);
        assertLetsIn(() -> assertEquals("forced",
            lease.renew(LEASE_MS).expect(410).string("reason")), SOON_MS, waiter);
    }

    /** Java keeps the others. Its unlock() stops at the one it lost; unlockAsync() does not. */
    @RestToJava
    void restsForceUnlockOfOneEvictsJava() throws Exception {
        String[] ab = newNames(2);
        RLock lock = java(world.java, ab);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> first = javaWaitsForOne(ab[0]);
        first.staysOut(300);
        Going<Long> second = javaWaitsForOne(ab[1]);
        assertLetsIn(() -> assertEquals(true, one(ab[0]).forceUnlock().member("unlocked")),
            SOON_MS, first);
        second.staysOut(300);
        long start = now();
        unlockLost(lock); // which may release the other one before it fails
        lock.unlockAsync().exceptionally(lost -> null).toCompletableFuture().get();
        assertIn(second, start, 0, SOON_MS);
    }

    // ---- sessions and owners

    /** Some of its locks are held twice, some once. */
    @RestToJava
    void restsOwnerHoldsSomeTwice() throws Exception {
        String[] abc = newNames(3);
        Session session = new Session(world.front, LEASE_MS);
        Lease first = held(rest(abc[0], abc[1]).lease(session, "worker"));
        Lease second = rest(abc[1], abc[2]).lease(session, "worker");
        Rest.Answer granted = second.acquire("ttl_ms", LEASE_MS).expect(201);
        assertEquals(2, granted.number("locks.0.hold_count"));
        assertEquals(1, granted.number("locks.1.hold_count"));
        Going<Long> waiter = javaWaits(abc);
        first.release().expect(200);
        waiter.staysOut(300);
        assertLetsIn(() -> second.release().expect(200), SOON_MS, waiter);
        session.end();
    }

    // ---- watchdogs

    /** Both watchdogs at work, and one that wants what both hold. */
    @BothWays
    void watchdogsSideBySide() throws Exception {
        String[] abcd = newNames(4);
        Session session = new Session(world.front, SESSION_MS).keptAlive(300);
        Lease lease = rest(abcd[0], abcd[1]).lease(session);
        lease.acquire().expect(201);
        RLock lock = java(world.java, abcd[2], abcd[3]);
        lock.lock();
        Going<Long> rest = restWaits(abcd[1], abcd[2]);
        rest.staysOut(World.WATCHDOG_MS + 500);
        lease.release().expect(200);
        rest.staysOut(World.WATCHDOG_MS + 500);
        assertLetsIn(lock::unlock, AT_ONCE_MS, rest);
        session.end();
    }
}
