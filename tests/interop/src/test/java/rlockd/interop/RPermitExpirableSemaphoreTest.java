package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.client.codec.ByteArrayCodec;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** Permits with an end. Without one is what Java takes with no lease time. */
final class RPermitExpirableSemaphoreTest extends PermitTools {
    /** Long enough to renew a permit before it is over. */
    private static final long SHORT_MS = 2000 * PATIENCE;

    @Override
    Contest contest() {
        return new PermitContest();
    }

    @Override
    void assertTaken(String name, List<Contest.Turn> holders) {
        Rest.Answer state = rest(name).look();
        assertEquals(0, state.number("available"));
        assertEquals(holders.size(), state.number("holder_count"));
        if (holders.get(0) instanceof PermitContest.JavaTurn) {
            assertEquals(
                holders.stream().map(java -> ((PermitContest.JavaTurn) java).id())
                    .collect(Collectors.toSet()),
                IntStream.range(0, holders.size())
                    .mapToObj(i -> state.string("holders." + i + ".redisson_permit"))
                    .collect(Collectors.toSet()));
        }
    }

    // ---- hand-over

    /** Its message tells how many, and each of them has to bring somebody in. */
    @JavaToRest
    void javasReleaseOfSeveralIsForSeveralOfRest() throws Exception {
        assumeTrue(javaKnowsSeveral(), "this Redisson takes one permit at a time");
        String name = newName();
        java(name).trySetPermits(2);
        List<String> ids = call(java(name), "acquire", 2, LEASE_MS, MILLISECONDS);
        List<Lease> leases = List.of(rest(name).lease(), rest(name).lease());
        List<Going<Rest.Answer>> waiters = new ArrayList<>();
        for (Lease lease : leases) {
            waiters.add(go(() -> lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS)));
        }
        rest(name).awaitWaiters(2);
        long start = now();
        assertEquals(2, PermitTools.<Integer>call(java(name), "tryRelease", ids));
        for (Going<Rest.Answer> waiter : waiters) {
            assertBetween(0, AT_ONCE_MS, waiter.tookMs(start));
            waiter.await(0).expect(201);
        }
        assertEquals(2, java(name).acquiredPermits());
        for (Lease lease : leases) {
            lease.release().expect(200);
        }
        ends(name, 2);
    }

    @RestToJava
    void javaWaitsForSeveralOfRests() throws Exception {
        assumeTrue(javaKnowsSeveral(), "this Redisson takes one permit at a time");
        String name = newName();
        rest(name).put(2).expect(201);
        Lease first = rest(name).lease();
        Lease second = rest(name).lease();
        first.acquire("ttl_ms", LEASE_MS).expect(201);
        second.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = go(() -> {
            RPermitExpirableSemaphore semaphore =
                world.otherJava.getPermitExpirableSemaphore(name);
            List<String> ids =
                call(semaphore, "tryAcquire", 2, WAIT_MS, LEASE_MS, MILLISECONDS);
            assertEquals(2, ids.size());
            long inMs = now();
            call(semaphore, "release", ids);
            return inMs;
        });
        awaitListener(companion("redisson_sc", name), waiter);
        first.release().expect(200);
        waiter.staysOut(300);
        assertLetsIn(() -> second.release().expect(200), SOON_MS, waiter);
        ends(name, 2);
    }

    private interface WayOfWaiting {
        String in(RPermitExpirableSemaphore semaphore) throws Exception;
    }

    /** Each of these is code of its own in Redisson. */
    @RestToJava
    void everyWayOfJavaToWaitEndsWhenRestReleases() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        List<WayOfWaiting> ways = new ArrayList<>(List.of(
            semaphore -> semaphore.acquire(),
            semaphore -> semaphore.tryAcquire(WAIT_MS, MILLISECONDS),
            semaphore -> semaphore.acquireAsync(LEASE_MS, MILLISECONDS).get(),
            semaphore -> semaphore.tryAcquireAsync(WAIT_MS, LEASE_MS, MILLISECONDS).get()));
        if (javaKnowsSeveral()) {
            ways.add(semaphore -> PermitTools.<List<String>>call(semaphore, "acquire", 1,
                LEASE_MS, MILLISECONDS).get(0));
        }
        List<Going<Long>> waiters = new ArrayList<>();
        for (WayOfWaiting way : ways) {
            waiters.add(go(() -> {
                RPermitExpirableSemaphore semaphore =
                    world.otherJava.getPermitExpirableSemaphore(name);
                String id = way.in(semaphore);
                long inMs = now();
                semaphore.release(id);
                return inMs;
            }));
        }
        for (Going<Long> waiter : waiters) {
            waiter.staysOut(100);
        }
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiters);
        ends(name, 1);
    }

    // ---- counts and ids

    @JavaToRest
    void restSeesJavasPermits() throws Exception {
        String name = newName();
        world.front.get(rest(name).path).expect(404);
        assertTrue(java(name).trySetPermits(3));
        assertEquals(3, rest(name).put(9).expect(200).number("permits"));
        String leased = java(name).acquire(LEASE_MS, MILLISECONDS);
        String forEver = java(name).acquire();
        Rest.Answer state = rest(name).look();
        assertEquals(3, state.number("permits"));
        assertEquals(1, state.number("available"));
        assertEquals(2, state.number("holder_count"));
        assertEquals(leased, state.string("holders.0.redisson_permit"));
        assertLeft(LEASE_MS, state.number("holders.0.remaining_ms"));
        assertEquals(forEver, state.string("holders.1.redisson_permit"));
        assertNull(state.member("holders.1.remaining_ms"));

        assertTrue(java(name).updateLeaseTime(leased, 2 * LEASE_MS, MILLISECONDS));
        assertLeft(2 * LEASE_MS,
            rest(name).look().number("holders.0.remaining_ms"));
        assertEquals(leased, rest(name).look().string("holders.0.redisson_permit"));
        java(name).setPermits(2);
        assertEquals(0, rest(name).look().number("available"));
        Rest.Answer refused = rest(name).lease().acquire().expect(423);
        assertLeft(2 * LEASE_MS, refused.number("remaining_ms"));
        java(name).release(forEver);
        java(name).release(leased);
        ends(name, 2);
    }

    @RestToJava
    void javaSeesRestsPermits() throws Exception {
        String name = newName();
        assertEquals(3, rest(name).put(3).expect(201).number("permits"));
        assertFalse(java(name).trySetPermits(9));
        Lease lease = rest(name).lease();
        String id = idOf(lease.acquire("ttl_ms", LEASE_MS).expect(201));
        assertEquals(2, java(name).availablePermits());
        assertEquals(1, java(name).acquiredPermits());
        assertEquals(3, java(name).getPermits());
        assertLeaseSeen(name, id, LEASE_MS);
        List<String> members = world.java
            .<byte[]>getScoredSortedSet(timeouts(name), ByteArrayCodec.INSTANCE)
            .readAll().stream().map(HexFormat.of()::formatHex).toList();
        assertEquals(List.of(id), members);
        lease.renew(2 * LEASE_MS).expect(200);
        assertLeaseSeen(name, id, 2 * LEASE_MS);
        lease.release().expect(200);
        assertFalse(java(name).tryRelease(id));
        ends(name, 3);
    }

    private void assertLeaseSeen(String name, String id, long leaseMs)
        throws ReflectiveOperationException {
        if (javaKnowsSeveral()) {
            assertLeft(leaseMs, PermitTools.<Long>call(java(name), "getLeaseTime", id));
        }
    }

    private static String timeouts(String name) {
        return "{" + name + "}:timeout";
    }

    /** Whoever knows the id may do with the permit what its holder may. */
    @JavaToRest
    void javaRenewsAndReleasesRestsPermit() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Session session = new Session(world.front, LEASE_MS);
        Lease lease = rest(name).lease(session);
        Rest.Answer held = lease.acquire("ttl_ms", LEASE_MS).expect(201);
        assertTrue(java(name).updateLeaseTime(idOf(held), 2 * LEASE_MS, MILLISECONDS));
        assertLeft(2 * LEASE_MS,
            lease.acquire("ttl_ms", LEASE_MS).expect(200).number("remaining_ms"));
        Going<Long> waiter = restWaits(name);
        assertLetsIn(() -> java(name).release(idOf(held)), AT_ONCE_MS, waiter);
        lease.renew(LEASE_MS).expect(410);
        assertEquals(held.string("lease_id"), session.keepAlive().string("lost.0.lease_id"));
        assertEquals(0, session.end().number("released"));
        ends(name, 1);
    }

    @JavaToRest
    void javasNewPermitsLetRestIn() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        String id = java(name).acquire();
        Going<Long> waiter = restWaits(name);
        assertLetsIn(() -> java(name).addPermits(1), AT_ONCE_MS, waiter);
        String second = java(name).acquire();
        waiter = restWaits(name);
        assertLetsIn(() -> java(name).setPermits(3), AT_ONCE_MS, waiter);
        java(name).release(id);
        java(name).release(second);
        ends(name, 3);
    }

    @RestToJava
    void restsNewSemaphoreLetsJavaIn() throws Exception {
        String name = newName();
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(100);
        assertLetsIn(() -> rest(name).put(1).expect(201), SOON_MS, waiter);
        ends(name, 1);
    }

    // ---- the end of a permit

    @JavaToRest
    void restGetsInWhenJavasPermitExpires() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        long start = now();
        String id = java(name).acquire(1500, MILLISECONDS);
        assertIn(restWaits(name), start, 1490, AT_ONCE_MS);
        assertFalse(java(name).tryRelease(id));
        ends(name, 1);
    }

    @RestToJava
    void javaGetsInWhenRestsPermitExpires() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Lease lease = rest(name).lease();
        long start = now();
        lease.acquire("ttl_ms", 1500).expect(201);
        assertIn(javaWaits(name), start, 1490, 1500 + SOON_MS);
        assertEquals("expired", lease.renew(LEASE_MS).expect(410).string("reason"));
        lease.release().expect(410);
        ends(name, 1);
    }

    @JavaToRest
    void javasRenewalKeepsRestOut() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        String id = java(name).acquire(SHORT_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        long start = now();
        assertTrue(java(name).updateLeaseTime(id, 2 * SHORT_MS, MILLISECONDS));
        assertIn(waiter, start, 2 * SHORT_MS - 10, 2 * SHORT_MS + SOON_MS);
        ends(name, 1);
    }

    @RestToJava
    void restsRenewalKeepsJavaOut() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", SHORT_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        long start = now();
        lease.renew(2 * SHORT_MS).expect(200);
        assertIn(waiter, start, 2 * SHORT_MS - 10, 2 * SHORT_MS + SOON_MS);
        ends(name, 1);
    }

    /** Java sleeps for as long as it was told when it asked. */
    @RestToJava
    void javaHearsThatRestsPermitWasShortened() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Lease lease = rest(name).lease();
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(300);
        long start = now();
        lease.renew(1000).expect(200);
        assertIn(waiter, start, 990, 1000 + SOON_MS);
        ends(name, 1);
    }

    /** Redisson tells nobody of it: our waiters poll, every 4 to 6 s. */
    @JavaToRest
    void restFindsThatJavasPermitWasShortened() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        String id = java(name).acquire(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(name);
        long start = now();
        assertTrue(java(name).updateLeaseTime(id, 1000, MILLISECONDS));
        assertIn(waiter, start, 990, POLL_MS + SOON_MS);
        ends(name, 1);
    }

    // ---- sessions

    @RestToJava
    void theWatchdogKeepsJavaOut() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Session session = new Session(world.front, SESSION_MS).keptAlive(300);
        Lease lease = rest(name).lease(session);
        assertEquals(true, lease.acquire().expect(201).member("watchdog"));
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(3 * World.WATCHDOG_MS / 2);
        assertLetsIn(() -> assertEquals(1, session.end().number("released")), SOON_MS, waiter);
        ends(name, 1);
    }

    @RestToJava
    void javaGetsInWhenTheSessionFallsSilent() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        long start = now();
        Session session = new Session(world.front, SESSION_MS);
        rest(name).lease(session).acquire("ttl_ms", LEASE_MS).expect(201);
        assertIn(javaWaits(name), start, SESSION_MS - 10, SESSION_MS + SOON_MS);
        ends(name, 1);
    }

    // ---- gone

    @JavaToRest
    void killedJvmsPermitComesBackWithItsLease() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        Process client = KilledClient.java(this, world, name);
        long start = now();
        long leftMs = rest(name).look().number("holders.0.remaining_ms");
        Going<Long> waiter = restWaits(name);
        Processes.kill(client);
        assertIn(waiter, start, leftMs - 20, leftMs + SOON_MS);
        ends(name, 1);
    }

    @RestToJava
    void killedRestClientFreesItsPermit() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        Process client = KilledClient.rest(this, world, name);
        Going<Long> waiter = javaWaits(name);
        waiter.staysOut(SESSION_MS + 500);
        assertLetsIn(() -> Processes.kill(client), SESSION_MS + SOON_MS, waiter);
        ends(name, 1);
    }

    @JavaToRest
    void aRestWaiterThatIsGoneTakesNothing() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        String id = java(name).acquire();
        CompletableFuture<Rest.Answer> gone = rest(name).lease().acquiring("wait_ms", WAIT_MS);
        rest(name).awaitWaiters(1);
        Going<Long> stays = restWaits(name);
        gone.cancel(true);
        rest(name).awaitWaiters(1);
        assertLetsIn(() -> java(name).release(id), AT_ONCE_MS, stays);
        ends(name, 1);
    }
}
