package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntConsumer;
import java.util.function.LongSupplier;
import org.redisson.api.RSemaphore;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** Nothing here expires: who is not woken waits until WAIT_MS is over, Java or REST. */
final class RSemaphoreTest extends SemaphoreScenarios {
    @Override
    Contest contest() {
        return new SemaphoreContest();
    }

    @Override
    void assertTaken(String name, List<Contest.Turn> holders) {
        assertEquals(0, rest(name).available());
    }

    private RSemaphore java(String name) {
        return world.java.getSemaphore(name);
    }

    @Override
    RestSemaphore rest(String name) {
        return new RestSemaphore(world.front, name);
    }

    /** A Java client that waits for permits and keeps them; when it got in. */
    private Going<Long> javaWaits(String name, int permits) {
        RSemaphore semaphore = world.otherJava.getSemaphore(name);
        Going<Long> waits = go(() -> {
            assertTrue(semaphore.tryAcquire(permits, WAIT_MS, MILLISECONDS), "Java in vain");
            return now();
        });
        awaitListener(companion("redisson_sc", name), waits);
        return waits;
    }

    /** The same of a REST client, at the other front end. */
    private Going<Long> restWaits(String name, int permits) {
        RestSemaphore semaphore = new RestSemaphore(world.otherFront, name);
        Going<Long> waits = go(() -> {
            semaphore.acquire("permits", permits, "wait_ms", WAIT_MS).expect(200);
            return now();
        });
        semaphore.awaitWaiters(1, waits);
        return waits;
    }

    /** Both sides see that so many are free; then it goes. */
    private void ends(String name, int available) {
        assertEquals(available, rest(name).available());
        assertEquals(available, java(name).availablePermits());
        assertEquals(true, rest(name).delete().member("deleted"));
    }

    // ---- hand-over

    /** Two are free of the three that `waiter` wants; then the holder releases two more. */
    private void getsInWhenAllAreFree(String name, Going<Long> waiter, IntConsumer release,
                                      LongSupplier available, long soonMs) throws Exception {
        release.accept(1);
        release.accept(1);
        waiter.staysOut(300);
        assertEquals(2, available.getAsLong());
        assertLetsIn(() -> release.accept(2), soonMs, waiter);
        ends(name, 1);
    }

    @JavaToRest
    void restWaitsForSeveralOfJavas() throws Exception {
        String name = newName();
        java(name).trySetPermits(5);
        java(name).acquire(5);
        getsInWhenAllAreFree(name, restWaits(name, 3), java(name)::release,
            rest(name)::available, AT_ONCE_MS);
    }

    @RestToJava
    void javaWaitsForSeveralOfRests() throws Exception {
        String name = newName();
        rest(name).put(5).expect(201);
        rest(name).acquire("permits", 5).expect(200);
        getsInWhenAllAreFree(name, javaWaits(name, 3), rest(name)::release,
            java(name)::availablePermits, SOON_MS);
    }

    /** The message tells the total: one that frees two has to bring two waiters in. */
    private void oneReleaseIsForBoth(String name, Going<Long> first, Going<Long> second,
                                     IntConsumer release, long soonMs) throws Exception {
        assertLetsIn(() -> release.accept(2), soonMs, first, second);
        ends(name, 0);
    }

    @JavaToRest
    void oneReleaseOfJavasIsForSeveralOfRest() throws Exception {
        String name = newName();
        java(name).trySetPermits(2);
        assertEquals(2, java(name).drainPermits());
        Going<Long> first = restWaits(name, 1);
        Going<Long> second = go(() -> {
            rest(name).acquire("wait_ms", WAIT_MS).expect(200);
            return now();
        });
        rest(name).awaitWaiters(2);
        oneReleaseIsForBoth(name, first, second, java(name)::release, AT_ONCE_MS);
    }

    @RestToJava
    void oneReleaseOfRestsIsForSeveralOfJava() throws Exception {
        String name = newName();
        rest(name).put(2).expect(201);
        assertEquals(2, rest(name).drain().number("permits"));
        Going<Long> first = javaWaits(name, 1);
        Going<Long> second = go(() -> {
            assertTrue(world.otherJava.getSemaphore(name).tryAcquire(WAIT_MS, MILLISECONDS));
            return now();
        });
        second.staysOut(300);
        first.staysOut(0);
        oneReleaseIsForBoth(name, first, second, rest(name)::release, SOON_MS);
    }

    private interface WayOfWaiting {
        void in(RSemaphore semaphore) throws Exception;
    }

    /** Each of these is code of its own in Redisson. */
    @RestToJava
    void everyWayOfJavaToWaitEndsWhenRestReleases() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        rest(name).acquire().expect(200);
        List<WayOfWaiting> ways = List.of(
            semaphore -> semaphore.acquire(),
            semaphore -> assertTrue(semaphore.tryAcquire(WAIT_MS, MILLISECONDS)),
            semaphore -> semaphore.acquireAsync().get(),
            semaphore -> assertTrue(semaphore.tryAcquireAsync(WAIT_MS, MILLISECONDS).get()));
        List<Going<Long>> waiters = new ArrayList<>();
        for (WayOfWaiting way : ways) {
            waiters.add(go(() -> {
                RSemaphore semaphore = world.otherJava.getSemaphore(name);
                way.in(semaphore);
                long inMs = now();
                semaphore.release();
                return inMs;
            }));
        }
        for (Going<Long> waiter : waiters) {
            waiter.staysOut(100);
        }
        assertLetsIn(() -> rest(name).release(1), SOON_MS, waiters);
        ends(name, 1);
    }

    // ---- refused

    @JavaToRest
    void restIsRefusedWhatJavaHolds() throws Exception {
        String name = newName();
        java(name).trySetPermits(3);
        java(name).acquire(2);
        Rest.Answer refused = rest(name).acquire("permits", 2).expect(423);
        assertEquals(1, refused.number("available"));
        long start = now();
        rest(name).acquire("permits", 2, "wait_ms", 500).expect(423);
        assertBetween(490, AT_ONCE_MS, now() - start);
        rest(name).acquire().expect(200);
        ends(name, 0);
    }

    @RestToJava
    void javaIsRefusedWhatRestHolds() throws Exception {
        String name = newName();
        rest(name).put(3).expect(201);
        rest(name).acquire("permits", 2).expect(200);
        assertFalse(java(name).tryAcquire(2));
        long start = now();
        assertFalse(java(name).tryAcquire(2, 500, MILLISECONDS));
        assertBetween(450, 500 + SOON_MS, now() - start);
        assertTrue(java(name).tryAcquire());
        ends(name, 0);
    }

    // ---- counts

    @JavaToRest
    void restSeesWhatJavaDoes() throws Exception {
        String name = newName();
        world.front.get(rest(name).path).expect(404);
        assertTrue(java(name).trySetPermits(5));
        assertEquals(5, rest(name).put(9).expect(200).number("available"));
        java(name).acquire(2);
        assertEquals(3, rest(name).available());
        java(name).release();
        assertEquals(4, rest(name).available());
        java(name).addPermits(6);
        assertEquals(10, rest(name).available());
        java(name).addPermits(-3);
        assertEquals(7, rest(name).available());
        assertEquals(7, java(name).drainPermits());
        assertEquals(0, rest(name).available());
        assertEquals(0, rest(name).drain().number("permits"));
        rest(name).acquire().expect(423);
        java(name).release(2); // there is no upper bound
        assertEquals(2, rest(name).available());
        assertTrue(java(name).delete());
        world.front.get(rest(name).path).expect(404);
    }

    @RestToJava
    void javaSeesWhatRestDoes() {
        String name = newName();
        rest(name).put(5).expect(201);
        assertFalse(java(name).trySetPermits(9));
        assertEquals(5, java(name).availablePermits());
        rest(name).acquire("permits", 2).expect(200);
        assertEquals(3, java(name).availablePermits());
        rest(name).release(1);
        assertEquals(4, java(name).availablePermits());
        assertEquals(4, rest(name).drain().number("permits"));
        assertEquals(0, java(name).availablePermits());
        assertEquals(0, java(name).drainPermits());
        assertFalse(java(name).tryAcquire());
        rest(name).release(2);
        assertEquals(2, java(name).availablePermits());
        assertEquals(true, rest(name).delete().member("deleted"));
        assertFalse(java(name).isExists());
        assertTrue(java(name).trySetPermits(1));
        ends(name, 1);
    }

    @JavaToRest
    void javasNewPermitsLetRestIn() throws Exception {
        String name = newName();
        Going<Long> waiter = go(() -> { // for a semaphore that is not there yet
            rest(name).acquire("permits", 2, "wait_ms", WAIT_MS).expect(200);
            return now();
        });
        awaitListener(companion("redisson_sc", name), waiter);
        waiter.staysOut(100);
        assertLetsIn(() -> assertTrue(java(name).trySetPermits(2)), AT_ONCE_MS, waiter);
        waiter = restWaits(name, 2);
        assertLetsIn(() -> java(name).addPermits(2), AT_ONCE_MS, waiter);
        ends(name, 0);
    }

    @RestToJava
    void restsNewSemaphoreLetsJavaIn() throws Exception {
        String name = newName();
        Going<Long> waiter = javaWaits(name, 2);
        waiter.staysOut(100);
        assertLetsIn(() -> rest(name).put(2).expect(201), SOON_MS, waiter);
        ends(name, 0);
    }

    /** Redisson's listener fails on a message that is not a positive number. */
    @BothWays
    void aSemaphoreMayOwePermits() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        java(name).addPermits(-4);
        assertEquals(-3, rest(name).available());
        Going<Long> waiter = javaWaits(name, 1);
        rest(name).release(1);
        rest(name).release(2);
        assertEquals(0, java(name).availablePermits());
        waiter.staysOut(300);
        assertLetsIn(() -> rest(name).release(1), SOON_MS, waiter);

        java(name).addPermits(-2);
        waiter = restWaits(name, 1);
        java(name).release(2);
        waiter.staysOut(300);
        assertLetsIn(() -> java(name).release(), AT_ONCE_MS, waiter);
        ends(name, 0);
    }

    // ---- gone

    @JavaToRest
    void aRestWaiterThatIsGoneTakesNothing() throws Exception {
        String name = newName();
        java(name).trySetPermits(1);
        java(name).acquire();
        CompletableFuture<Rest.Answer> gone = rest(name).acquiring("wait_ms", WAIT_MS);
        rest(name).awaitWaiters(1);
        gone.cancel(true);
        rest(name).awaitWaiters(0);
        java(name).release();
        assertEquals(1, java(name).availablePermits());

        java(name).acquire();
        gone = rest(name).acquiring("wait_ms", WAIT_MS);
        rest(name).awaitWaiters(1);
        Going<Long> stays = go(() -> {
            rest(name).acquire("wait_ms", WAIT_MS).expect(200);
            return now();
        });
        rest(name).awaitWaiters(2);
        long start = now();
        gone.cancel(true); // and it is its turn
        java(name).release();
        assertIn(stays, start, 0, AT_ONCE_MS);
        ends(name, 0);
    }

    // ---- names

    @Override
    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        super.nameMapperIsOurKeyPrefix();
        String name = newName();
        assertTrue(world.prefixedJava.getSemaphore(name).trySetPermits(3));
        assertEquals(3, rest(World.PREFIX + name).available());
        world.front.get(rest(name).path).expect(404);
        ends(World.PREFIX + name, 3);
    }
}
