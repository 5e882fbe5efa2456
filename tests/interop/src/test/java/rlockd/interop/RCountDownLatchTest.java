package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

final class RCountDownLatchTest extends Interop {
    private RCountDownLatch java(String name) {
        return world.java.getCountDownLatch(name);
    }

    private RestLatch rest(String name) {
        return new RestLatch(world.front, name);
    }

    /** In braces whatever the name, unlike all others. */
    private static String channel(String name) {
        return "redisson_countdownlatch__channel__{" + name + "}";
    }

    /** A Java client that waits for zero; when it was told. */
    private Going<Long> javaAwaits(String name) {
        RCountDownLatch latch = world.otherJava.getCountDownLatch(name);
        Going<Long> waits = go(() -> {
            assertTrue(latch.await(WAIT_MS, MILLISECONDS), "Java awaited in vain");
            return now();
        });
        awaitListener(channel(name), waits);
        return waits;
    }

    /** The same of a REST client. */
    private Going<Long> restAwaits(Rest front, String name) {
        RestLatch latch = new RestLatch(front, name);
        long others = latch.look().number("waiter_count");
        Going<Long> waits = go(() -> {
            assertEquals(0, latch.await(WAIT_MS).number("count"), "REST awaited in vain");
            return now();
        });
        latch.awaitWaiters(others + 1, waits);
        return waits;
    }

    /** Both sides see that it is at zero, and nothing is left of it. */
    private void ended(String name) {
        assertEquals(0, rest(name).count());
        assertEquals(0, java(name).getCount());
        assertFalse(java(name).isExists());
        assertEquals(false, rest(name).delete().member("deleted"));
    }

    // ---- the last one

    @JavaToRest
    void restIsToldWhenJavaCountsDown() throws Exception {
        String name = newName();
        assertTrue(java(name).trySetCount(2));
        List<Going<Long>> waiters = List.of(restAwaits(world.front, name),
            restAwaits(world.front, name), restAwaits(world.otherFront, name));
        java(name).countDown();
        for (Going<Long> waiter : waiters) {
            waiter.staysOut(100);
        }
        assertLetsIn(() -> java(name).countDown(), AT_ONCE_MS, waiters);
        ended(name);
    }

    @RestToJava
    void javaIsToldWhenRestCountsDown() throws Exception {
        String name = newName();
        rest(name).put(2).expect(201);
        Going<Long> waiter = javaAwaits(name);
        assertEquals(1, rest(name).countDown().number("count"));
        waiter.staysOut(300);
        assertLetsIn(() -> assertEquals(0, rest(name).countDown().number("count")),
            SOON_MS, waiter);
        ended(name);
    }

    private interface WayOfWaiting {
        void of(RCountDownLatch latch) throws Exception;
    }

    /** Each of these is code of its own in Redisson. */
    @RestToJava
    void everyWayOfJavaToAwaitEndsWhenRestCountsDown() throws Exception {
        String name = newName();
        rest(name).put(1).expect(201);
        List<WayOfWaiting> ways = new ArrayList<>(List.of(
            latch -> latch.await(),
            latch -> assertTrue(latch.await(WAIT_MS, MILLISECONDS))));
        if (!World.isBefore(3, 28)) { // older ones may miss the message
            ways.add(latch -> latch.awaitAsync().get());
            ways.add(latch -> assertTrue(latch.awaitAsync(WAIT_MS, MILLISECONDS).get()));
        }
        List<Going<Long>> waiters = new ArrayList<>();
        for (RedissonClient client : List.of(world.java, world.otherJava)) {
            for (WayOfWaiting way : ways) {
                waiters.add(go(() -> {
                    way.of(client.getCountDownLatch(name));
                    return now();
                }));
            }
        }
        eventually("both listen", CONDITION_MS, () -> world.listeners(channel(name)) == 2);
        for (Going<Long> waiter : waiters) {
            waiter.staysOut(50);
        }
        assertLetsIn(() -> rest(name).countDown(), SOON_MS, waiters);
        ended(name);
    }

    @BothWays
    void bothCountDownAndBothAwait() throws Exception {
        String name = newName();
        int each = 10;
        rest(name).put(4 * each + 1).expect(201);
        List<Going<Long>> waiters =
            List.of(javaAwaits(name), restAwaits(world.front, name),
                restAwaits(world.otherFront, name));
        List<Runnable> ways = List.of(
            () -> java(name).countDown(),
            () -> world.otherJava.getCountDownLatch(name).countDown(),
            () -> rest(name).countDown(),
            () -> new RestLatch(world.otherFront, name).countDown());
        List<Going<Long>> counters = new ArrayList<>();
        for (Runnable way : ways) {
            counters.add(go(() -> {
                for (int i = 0; i < each; i++) {
                    way.run();
                }
                return now();
            }));
        }
        for (Going<Long> counter : counters) {
            counter.await(WAIT_MS);
        }
        assertEquals(1, java(name).getCount());
        for (Going<Long> waiter : waiters) {
            waiter.staysOut(100);
        }
        assertLetsIn(() -> assertEquals(0, rest(name).countDown().number("count")), AT_ONCE_MS, waiters);
        ended(name);
    }

    // ---- in vain

    @JavaToRest
    void restIsToldTheCountWhenItsWaitIsOver() {
        String name = newName();
        java(name).trySetCount(3);
        java(name).countDown();
        long start = now();
        assertEquals(2, rest(name).await(500).number("count"));
        assertBetween(490, AT_ONCE_MS, now() - start);
        assertTrue(java(name).delete());
        ended(name);
    }

    @RestToJava
    void javaAwaitsInVain() throws Exception {
        String name = newName();
        rest(name).put(2).expect(201);
        rest(name).countDown();
        long start = now();
        assertFalse(java(name).await(500, MILLISECONDS));
        assertBetween(450, 500 + SOON_MS, now() - start);
        assertEquals(true, rest(name).delete().member("deleted"));
        ended(name);
    }

    @JavaToRest
    void aRestWaiterThatIsGoneIsForgotten() throws Exception {
        String name = newName();
        java(name).trySetCount(1);
        CompletableFuture<Rest.Answer> gone = world.front.begin("GET",
            rest(name).path + "?wait_ms=" + WAIT_MS);
        rest(name).awaitWaiters(1);
        gone.cancel(true);
        rest(name).awaitWaiters(0);
        assertEquals(1, java(name).getCount());
        java(name).countDown();
        ended(name);
    }

    // ---- counts

    @JavaToRest
    void restSeesJavasCount() {
        String name = newName();
        assertEquals(0, rest(name).count());
        assertTrue(java(name).trySetCount(3));
        assertEquals(3, rest(name).put(9).expect(200).number("count"));
        java(name).countDown();
        assertEquals(2, rest(name).count());
        assertTrue(java(name).delete());
        assertEquals(0, rest(name).count());
        rest(name).put(1).expect(201);
        java(name).countDown();
        assertEquals(0, rest(name).await(WAIT_MS).number("count"));
        java(name).countDown(); // below zero is nothing
        ended(name);
    }

    @RestToJava
    void javaSeesRestsCount() throws Exception {
        String name = newName();
        rest(name).put(3).expect(201);
        assertFalse(java(name).trySetCount(9));
        assertEquals(3, java(name).getCount());
        rest(name).countDown();
        assertEquals(2, java(name).getCount());
        assertEquals(true, rest(name).delete().member("deleted"));
        assertEquals(0, java(name).getCount());
        assertTrue(java(name).trySetCount(1));
        assertEquals(0, rest(name).countDown().number("count"));
        assertTrue(java(name).await(0, MILLISECONDS));
        assertEquals(0, rest(name).countDown().number("count"));
        ended(name);
    }

    // ---- deleted

    /** A latch that is not there is at zero, and a waiter of ours is told so. */
    @JavaToRest
    void javasDeletingEndsRestsWait() throws Exception {
        String name = newName();
        java(name).trySetCount(2);
        List<Going<Long>> waiters = List.of(restAwaits(world.front, name),
            restAwaits(world.front, name), restAwaits(world.otherFront, name));
        assertLetsIn(() -> assertTrue(java(name).delete()), AT_ONCE_MS, waiters);
        ended(name);
    }

    /** Redisson's own delete() does not end the wait of Java clients, so ours does not. */
    @RestToJava
    void restsDeletingLeavesJavaAwaitingANewOne() throws Exception {
        String name = newName();
        rest(name).put(2).expect(201);
        Going<Long> waiter = javaAwaits(name);
        waiter.staysOut(100);
        assertEquals(true, rest(name).delete().member("deleted"));
        waiter.staysOut(300);
        rest(name).put(1).expect(201);
        waiter.staysOut(100);
        assertLetsIn(() -> rest(name).countDown(), SOON_MS, waiter);
        ended(name);
    }

    // ---- names

    private void tellsBothWays(RedissonClient client, Rest front, String name)
        throws Exception {
        RCountDownLatch java = client.getCountDownLatch(name);
        RestLatch rest = new RestLatch(front, name);
        assertTrue(java.trySetCount(1));
        Going<Rest.Answer> restAwaits = go(() -> rest.await(WAIT_MS));
        rest.awaitWaiters(1);
        long start = now();
        java.countDown();
        assertBetween(0, AT_ONCE_MS, restAwaits.tookMs(start));
        assertEquals(0, restAwaits.await(0).number("count"));

        rest.put(1).expect(201);
        Going<Long> javaAwaits = go(() -> {
            assertTrue(java.await(WAIT_MS, MILLISECONDS), "Java awaited in vain");
            return now();
        });
        awaitListenerOfAny(List.of(name), javaAwaits);
        javaAwaits.staysOut(200);
        assertLetsIn(rest::countDown, SOON_MS, javaAwaits);
    }

    /** The channel has braces around a name with braces: in a cluster it is in another slot. */
    @BothWays
    void namesWithBraces() throws Exception {
        assumeTrue(!world.topology.isCluster(), "Redisson's own latch fails: CROSSSLOT");
        tellsBothWays(world.java, world.front, newName(":{42}:x{🔒}"));
        for (String name : namesWithUnmatchedBraces()) {
            tellsBothWays(world.java, world.front, name);
        }
    }

    @BothWays
    void namesInUtf8() throws Exception {
        tellsBothWays(world.java, world.front, newName(" Straße/日本 %2F+?#&🔒"));
    }

    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        String name = newName();
        tellsBothWays(world.prefixedJava, world.prefixedFront, name);
        assertTrue(world.prefixedJava.getCountDownLatch(name).trySetCount(3));
        assertEquals(3, rest(World.PREFIX + name).count());
        assertEquals(0, rest(name).count());
        assertEquals(true, rest(World.PREFIX + name).delete().member("deleted"));
    }
}
