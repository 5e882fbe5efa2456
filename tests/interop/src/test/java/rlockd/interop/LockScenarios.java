package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/**
 * What a lock of Redisson and the same lock over REST owe each other. A class per object says
 * how either side gets at it, and is named in RaceTest; it leaves a scenario out by overriding
 * it without annotation. Objects that are no locks begin at Interop.
 */
abstract class LockScenarios extends LockTools {
    // ---- hand-over

    @JavaToRest
    void restGetsInWhenJavaReleases() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        waiter.staysOut(300);
        long start = now();
        lock.unlock();
        assertIn(waiter, start, 0, javaReleaseSeenMs());
    }

    @RestToJava
    void javaGetsInWhenRestReleases() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        lease.release().expect(200);
        assertIn(waiter, start, 0, SOON_MS);
    }

    private interface WayOfWaiting {
        void in(RLock lock) throws Exception;
    }

    /** Each of these is code of its own in Redisson. */
    @RestToJava
    void everyWayOfJavaToWaitEndsWhenRestReleases() throws Exception {
        List<WayOfWaiting> ways = List.of(
            lock -> lock.lock(),
            lock -> lock.lockInterruptibly(LEASE_MS, MILLISECONDS),
            lock -> assertTrue(lock.tryLock(WAIT_MS, MILLISECONDS)),
            lock -> lock.lockAsync(LEASE_MS, MILLISECONDS).get(),
            lock -> assertTrue(lock.tryLockAsync(WAIT_MS, LEASE_MS, MILLISECONDS).get()));
        for (WayOfWaiting way : ways) {
            String name = newName();
            Lease lease = rest(name).lease();
            lease.acquire("ttl_ms", LEASE_MS).expect(201);
            Going<Long> waiter = go(() -> {
                RLock lock = javaRival(world.otherJava, name);
                way.in(lock);
                long inMs = now();
                lock.unlock();
                return inMs;
            });
            awaitJava(name, waiter);
            waiter.staysOut(300);
            long start = now();
            lease.release().expect(200);
            assertIn(waiter, start, 0, SOON_MS);
        }
    }

    // ---- refused

    @JavaToRest
    void restIsToldThatJavaHolds() {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Rest.Answer refused = restRival(world.front, name).lease()
            .acquire("ttl_ms", LEASE_MS).expect(423);
        assertEquals(holderOfThisThread(), refused.string("holder.redisson_holder"));
        assertLeft(LEASE_MS, refused.number("remaining_ms"));

        Rest.Answer state = rest(name).look();
        assertEquals(true, state.member("locked"));
        assertEquals(kindOfJavas(), state.string("kind"));
        assertEquals(holderOfThisThread(), state.string("holders.0.redisson_holder"));
        assertEquals(1, state.number("holders.0.hold_count"));
        assertLeft(LEASE_MS, state.number("remaining_ms"));
        lock.unlock();
        assertEquals(false, rest(name).look().member("locked"));
    }

    @RestToJava
    void javaIsRefusedWhileRestHolds() throws Exception {
        String name = newName();
        RLock lock = javaRival(world.java, name);
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        assertFalse(lock.tryLock());
        long start = now();
        assertFalse(lock.tryLock(500, LEASE_MS, MILLISECONDS));
        assertBetween(450, 500 + SOON_MS, now() - start);
        assertTrue(java(name).isLocked());
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertLeft(LEASE_MS, lock.remainTimeToLive());
        lease.renew(2 * LEASE_MS).expect(200);
        assertLeft(2 * LEASE_MS, lock.remainTimeToLive());
        lease.release().expect(200);
        assertFalse(lock.isLocked());
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    // ---- expiry

    @JavaToRest
    void restGetsInWhenJavasLeaseExpires() throws Exception {
        String name = newName();
        RLock lock = java(name);
        long start = now();
        lock.lock(1500, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        assertIn(waiter, start, 1490, AT_ONCE_MS); // no poll
        unlockLost(lock);
    }

    @RestToJava
    void javaGetsInWhenRestsLeaseExpires() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        long start = now();
        lease.acquire("ttl_ms", 1500).expect(201);
        Going<Long> waiter = javaWaits(name);
        assertIn(waiter, start, 1490, 1500 + SOON_MS);
        assertEquals("expired", lease.renew(LEASE_MS).expect(410).string("reason"));
        lease.release().expect(410);
    }

    /** Java sleeps for as long as it was told when it asked. */
    @RestToJava
    void javaHearsThatRestsLeaseWasShortened() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        lease.renew(1000).expect(200);
        assertIn(waiter, start, 990, 1000 + SOON_MS);
    }

    // ---- force-unlock

    @JavaToRest
    void javasForceUnlockWakesRest() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = restWaits(name);
        long start = now();
        assertTrue(java(name).forceUnlock());
        assertIn(waiter, start, 0, javaReleaseSeenMs());
        lease.renew(LEASE_MS).expect(410);
    }

    @JavaToRest
    void javasForceUnlockOfJavaWakesRest() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        long start = now();
        assertTrue(java(world.otherJava, name).forceUnlock());
        assertIn(waiter, start, 0, javaReleaseSeenMs());
        unlockLost(lock);
    }

    @RestToJava
    void restsForceUnlockWakesJava() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        assertEquals(true, rest(name).forceUnlock().member("unlocked"));
        assertIn(waiter, start, 0, SOON_MS);
        assertEquals("forced", lease.renew(LEASE_MS).expect(410).string("reason"));
    }

    @RestToJava
    void restsForceUnlockEvictsJava() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        assertEquals(true, rest(name).forceUnlock().member("unlocked"));
        assertIn(waiter, start, 0, SOON_MS);
        unlockLost(lock);
    }

    // ---- sessions

    @RestToJava
    void javaGetsInWhenTheSessionIsDeleted() throws Exception {
        String name = newName();
        Session session = new Session(world.front, LEASE_MS).keptAlive(300);
        rest(name).lease(session).acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        assertEquals(1, session.end().number("released"));
        assertIn(waiter, start, 0, SOON_MS);
    }

    @RestToJava
    void javaGetsInWhenTheSessionFallsSilent() throws Exception {
        String name = newName();
        long start = now();
        Session session = new Session(world.front, SESSION_MS);
        rest(name).lease(session).acquire("ttl_ms", LEASE_MS).expect(201);
        assertIn(javaWaits(name), start, SESSION_MS - 10, SESSION_MS + SOON_MS);
    }

    // ---- reentrancy

    @JavaToRest
    void javaHoldsTwice() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        lock.lock(LEASE_MS, MILLISECONDS);
        assertEquals(2, rest(name).look().number("holders.0.hold_count"));
        Going<Long> waiter = restWaits(name);
        lock.unlock();
        assertEquals(1, rest(name).look().number("holders.0.hold_count"));
        waiter.staysOut(400);
        long start = now();
        lock.unlock();
        assertIn(waiter, start, 0, javaReleaseSeenMs());
    }

    @RestToJava
    void restsOwnerHoldsTwice() throws Exception {
        String name = newName();
        Session session = new Session(world.front, LEASE_MS);
        Lease first = rest(name).lease(session, "worker");
        Lease second = rest(world.otherFront, name).lease(session, "worker");
        first.acquire("ttl_ms", LEASE_MS).expect(201);
        assertEquals(2, second.acquire("ttl_ms", LEASE_MS).expect(201).number("hold_count"));
        assertEquals(2, rest(name).look().number("holders.0.hold_count"));
        Going<Long> waiter = javaWaits(name);
        assertEquals(1, first.release().expect(200).number("hold_count"));
        waiter.staysOut(400);
        long start = now();
        assertEquals(0, second.release().expect(200).number("hold_count"));
        assertIn(waiter, start, 0, SOON_MS);
        session.end();
    }

    // ---- watchdogs

    @JavaToRest
    void javasWatchdogKeepsRestOut() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock();
        Going<Long> waiter = restWaits(name);
        waiter.staysOut(3 * World.WATCHDOG_MS / 2);
        assertTrue(lock.isHeldByCurrentThread());
        long start = now();
        lock.unlock();
        assertIn(waiter, start, 0, javaReleaseSeenMs());
    }

    @RestToJava
    void restsWatchdogKeepsJavaOut() throws Exception {
        String name = newName();
        Session session = new Session(world.front, SESSION_MS).keptAlive(300);
        Lease lease = rest(name).lease(session);
        assertEquals(true, lease.acquire().expect(201).member("watchdog"));
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(3 * World.WATCHDOG_MS / 2);
        long start = now();
        lease.release().expect(200);
        assertIn(waiter, start, 0, SOON_MS);
        session.end();
    }

    // ---- killed clients

    @JavaToRest
    void killedJvmFreesItsLock() throws Exception {
        String name = newName();
        Process client = KilledClient.java(this, world, name);
        Going<Long> waiter = restWaits(name);
        waiter.staysOut(World.WATCHDOG_MS + 500);
        long start = now();
        Processes.kill(client);
        assertIn(waiter, start, 0, World.WATCHDOG_MS + SOON_MS);
    }

    @RestToJava
    void killedRestClientFreesItsLock() throws Exception {
        String name = newName();
        Process client = KilledClient.rest(this, world, name);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(SESSION_MS + 500);
        long start = now();
        Processes.kill(client);
        assertIn(waiter, start, 0, SESSION_MS + SOON_MS);
    }

    // ---- listing

    /** What is listed below a prefix: names, and who holds them. */
    private Map<String, String> listed(String prefix) {
        Map<String, String> holders = new HashMap<>();
        String cursor = "";
        do {
            Rest.Answer page = world.front.get("/v1/locks?prefix=" + Rest.encode(prefix)
                + (cursor.isEmpty() ? "" : "&cursor=" + Rest.encode(cursor))).expect(200);
            for (int i = 0; page.member("locks." + i) != null; i++) {
                holders.put(page.string("locks." + i + ".lock"),
                    page.string("locks." + i + ".holders.0.redisson_holder"));
            }
            cursor = page.string("next_cursor");
        } while (cursor != null);
        return holders;
    }

    @JavaToRest
    void listingShowsJavasLocksButNoLatches() {
        String name = newName();
        RLock lock = java(name);
        // What an unlock leaves for some seconds when the Java client does not clean up.
        world.setKey("redisson_unlock_latch:{" + name + "}:0123456789abcdef0123456789abcdef",
            "1", 5000);
        assertEquals(Map.of(), listed(name));
        lock.lock(LEASE_MS, MILLISECONDS);
        lock.lock(LEASE_MS, MILLISECONDS);
        lock.unlock();
        assertEquals(Map.of(name, holderOfThisThread()), listed(name));
        assertEquals(Map.of(), listed("redisson_"));
        lock.unlock();
        assertEquals(Map.of(), listed(name));
    }

    // ---- names

    final void handsOverBothWays(RedissonClient client, Rest front, String name)
        throws InterruptedException {
        RestLock rest = restRival(front, name);
        RLock java = java(client, name);
        java.lock(LEASE_MS, MILLISECONDS);
        Lease lease = rest.lease();
        Going<Rest.Answer> restWaits = go(() ->
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        rest.awaitWaiters(1, restWaits);
        long start = now();
        java.unlock();
        assertBetween(0, javaReleaseSeenMs(), restWaits.tookMs(start));
        restWaits.await(0).expect(201);

        Going<Long> javaWaits = go(() -> {
            RLock lock = java(client, name);
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            long inMs = now();
            lock.unlock();
            return inMs;
        });
        awaitJava(name, javaWaits);
        javaWaits.staysOut(200);
        start = now();
        lease.release().expect(200);
        assertIn(javaWaits, start, 0, SOON_MS);
    }

    @BothWays
    void namesWithBraces() throws Exception {
        handsOverBothWays(world.java, world.front, newName(":{42}:x"));
        for (String name : namesWithUnmatchedBraces()) {
            handsOverBothWays(world.java, world.front, name);
        }
    }

    @BothWays
    void namesInUtf8() throws Exception {
        handsOverBothWays(world.java, world.front, newName(" Straße/日本 %2F+?#&"));
        handsOverBothWays(world.java, world.front, newName(":{🔒}"));
    }

    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        String name = newName();
        handsOverBothWays(world.prefixedJava, world.prefixedFront, name);

        RLock prefixed = java(world.prefixedJava, name);
        prefixed.lock(LEASE_MS, MILLISECONDS);
        assertEquals(Set.of(World.PREFIX + name), listed(World.PREFIX + name).keySet());
        Lease unmapped = rest(name).lease(); // the same name without the prefix: another lock
        unmapped.acquire("ttl_ms", LEASE_MS).expect(201);
        restRival(world.prefixedFront, name).lease().acquire("ttl_ms", LEASE_MS).expect(423);
        restRival(world.front, World.PREFIX + name).lease().acquire("ttl_ms", LEASE_MS)
            .expect(423);
        unmapped.release().expect(200);
        prefixed.unlock();
    }

    // ---- fencing

    @BothWays
    void fencingTokensGrow() {
        String name = newName();
        RLock lock = java(name);
        long last = 0;
        for (int i = 0; i < 5; i++) {
            Lease lease = rest(i % 2 == 0 ? world.front : world.otherFront, name).lease();
            long token = lease.acquire("ttl_ms", LEASE_MS).expect(201).number("fencing_token");
            assertTrue(token > last, token + " after " + last);
            last = token;
            assertEquals(last, rest(name).look().number("fencing_token"));
            lease.release().expect(200);
            for (int again = 0; again < 3; again++) {
                lock.lock(LEASE_MS, MILLISECONDS);
                OptionalLong javas = javaToken(lock);
                if (javas.isPresent()) {
                    assertTrue(javas.getAsLong() > last, javas + " after " + last);
                    last = javas.getAsLong();
                    assertEquals(last, rest(name).look().number("fencing_token"));
                }
                lock.unlock();
            }
        }
    }
}
