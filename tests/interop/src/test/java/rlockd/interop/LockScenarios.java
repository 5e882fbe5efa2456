package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
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

    // ---- the longest lease, which has more ms than an int

    private static final long LONGEST_MS = 366L * 24 * 60 * 60 * 1000;

    @JavaToRest
    void restReadsTheLongestLease() {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LONGEST_MS, MILLISECONDS);
        Rest.Answer refused = restRival(world.front, name).lease()
            .acquire("ttl_ms", LEASE_MS).expect(423);
        assertLeft(LONGEST_MS, refused.number("remaining_ms"));
        assertLeft(LONGEST_MS, rest(name).look().number("remaining_ms"));
        lock.unlock();
    }

    @RestToJava
    void javaReadsTheLongestLease() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LONGEST_MS).expect(201);
        assertLeft(LONGEST_MS, java(name).remainTimeToLive());
        assertFalse(javaRival(world.java, name).tryLock(300, LEASE_MS, MILLISECONDS));
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        lease.renew(LONGEST_MS).expect(200);
        assertLeft(LONGEST_MS, java(name).remainTimeToLive());
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiter);
    }

    // ---- force-unlock

    @JavaToRest
    void javasForceUnlockWakesRest() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = restWaits(name);
        assertLetsIn(() -> assertTrue(java(name).forceUnlock()), javaReleaseSeenMs(), waiter);
        lease.renew(LEASE_MS).expect(410);
    }

    @JavaToRest
    void javasForceUnlockOfJavaWakesRest() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        assertLetsIn(() -> assertTrue(java(world.otherJava, name).forceUnlock()),
            javaReleaseSeenMs(), waiter);
        unlockLost(lock);
    }

    @RestToJava
    void restsForceUnlockWakesJava() throws Exception {
        String name = newName();
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        assertLetsIn(() -> assertEquals(true, rest(name).forceUnlock().member("unlocked")),
            SOON_MS, waiter);
        assertEquals("forced", lease.renew(LEASE_MS).expect(410).string("reason"));
    }

    @RestToJava
    void restsForceUnlockEvictsJava() throws Exception {
        String name = newName();
        RLock lock = java(name);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        assertLetsIn(() -> assertEquals(true, rest(name).forceUnlock().member("unlocked")),
            SOON_MS, waiter);
        unlockLost(lock);
    }

    // ---- reentrancy

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
        assertLetsIn(() -> assertEquals(0, second.release().expect(200).number("hold_count")),
            SOON_MS, waiter);
        session.end();
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
        throws Exception {
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
        awaitJava(javaWaits, name);
        javaWaits.staysOut(200);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, javaWaits);
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
