package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.extension.ExtendWith;

/** What every test of an object needs: names, other threads, time, a look at what is left. */
@ExtendWith(Report.class)
abstract class Interop {
    /**
     * INTEROP_PATIENCE=3 on a busy machine: whatever nothing else sets a limit to may take so
     * many times as long.
     */
    static final long PATIENCE = patience();
    /** Longer than any test takes, so that nothing expires unless a test wants it. */
    static final long LEASE_MS = 30_000 * PATIENCE;
    /** How long somebody may wait who must not be woken by a time-out of anything. */
    static final long WAIT_MS = 20_000 * PATIENCE;
    /** A REST waiter that no message wakes tries again by itself, after 4 s or by then. */
    static final long POLL_MS = 6000;
    /**
     * By then a REST waiter that was woken is in, as slow as the machine may be: later it may
     * have polled.
     */
    static final long AT_ONCE_MS = 3500;
    /** The same of a Java waiter, which else sleeps until WAIT_MS or LEASE_MS is over. */
    static final long SOON_MS = WAIT_MS / 2;
    /** A session that a client keeps alive: no stall of the machine may last so long. */
    static final long SESSION_MS = 4000 * PATIENCE;
    /** A condition that a test waits for is true by then, or never. */
    static final long CONDITION_MS = WAIT_MS;

    private static final AtomicInteger NAMES = new AtomicInteger();

    /** Set before each test: an object by itself needs none. */
    World world;
    private final List<String> names = new ArrayList<>();
    private String method;

    private static long patience() {
        String patience = System.getenv("INTEROP_PATIENCE");
        return patience == null || patience.isEmpty() ? 1 : Long.parseLong(patience);
    }

    /** As the matrix calls it. */
    String object() {
        return getClass().getSimpleName().replaceFirst("Test$", "");
    }

    @BeforeEach
    void enter(TestInfo test) {
        world = World.shared();
        method = test.getTestMethod().orElseThrow().getName();
    }

    /** A name that no other test has; nothing of it may be left when this one ends. */
    String newName() {
        return newName("");
    }

    String newName(String suffix) {
        String name = object() + "/" + method + "/" + NAMES.incrementAndGet() + suffix;
        names.add(name);
        return name;
    }

    /**
     * Names with unmatched braces. None in a cluster: the keys of such a lock are in several
     * slots, so both sides refuse it.
     */
    final List<String> namesWithUnmatchedBraces() {
        return world.topology.isCluster() ? List.of() : List.of(newName("{"), newName("}{}"));
    }

    /** The beginning of names that share a slot, if there are slots. */
    final String inOneSlot(String common) {
        return world.topology.isCluster() ? "{" + common + "}" : common;
    }

    @AfterEach
    void leavesNothing() {
        KilledClient.killRest(this);
        Session.endRest();
        try {
            eventually("nothing is left", CONDITION_MS,
                () -> remains(this::isLeftByUs).isEmpty(),
                () -> remains(this::isLeftByUs).toString());
        } finally { // one failure is enough: the race looks for anything left
            world.java.getKeys().delete(remains(this::isOurs).keySet().toArray(String[]::new));
        }
    }

    /** Keys with a TTL that Redisson itself leaves behind in this test. */
    boolean isLeftByJava(String test, String key) {
        return false;
    }

    private boolean isOurs(String key) {
        return names.stream().anyMatch(key::contains);
    }

    private boolean isLeftByUs(String key) {
        return isOurs(key) && !isLeftByJava(method, key);
    }

    /** Keys that should be gone: all but fencing counters and what goes away by itself soon. */
    Map<String, Long> remains(Predicate<String> wanted) {
        Map<String, Long> remains = new ConcurrentHashMap<>();
        world.keys().forEach((key, ttlMs) -> {
            boolean counter = key.startsWith("redisson_lock_token:");
            boolean passing = ttlMs >= 0 && ttlMs <= 2 * LEASE_MS + World.RETRY_WINDOW_MS
                && (key.startsWith("rlockd:") || key.startsWith("redisson_unlock_latch:"));
            if (wanted.test(key) && !counter && !passing) {
                remains.put(key, ttlMs);
            }
        });
        return remains;
    }

    // ---- what Java listens to

    /** Redisson's rule for the names that go with a name. */
    static String companion(String prefix, String name) {
        return name.contains("{") ? prefix + ":" + name : prefix + ":{" + name + "}";
    }

    /** A Java client that waits listens first, then tries once more, then sleeps. */
    final void awaitListener(String channel, Going<?> waits) {
        eventually("somebody listens to " + channel, CONDITION_MS,
            () -> waits.ended() || world.listeners(channel) > 0);
    }

    /** The same where the channel depends on the kind of lock, and may be the thread's own. */
    final void awaitListenerOfAny(List<String> locks, Going<?> waits) {
        eventually("somebody listens for one of " + locks, CONDITION_MS,
            () -> waits.ended() || world.channels().stream().anyMatch(
                channel -> locks.stream().anyMatch(channel::contains)));
    }

    // ---- time

    static long now() {
        return System.nanoTime() / 1_000_000;
    }

    static void nap(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void eventually(String what, long ms, BooleanSupplier condition) {
        eventually(what, ms, condition, () -> "");
    }

    static void eventually(String what, long ms, BooleanSupplier condition,
                           Supplier<String> instead) {
        long giveUp = now() + ms;
        while (!condition.getAsBoolean()) {
            if (now() > giveUp) {
                fail("not within " + ms + " ms: " + what + " " + instead.get());
            }
            nap(10);
        }
    }

    static void assertBetween(long low, long high, long value) {
        assertTrue(low <= value && value <= high,
            value + " is not from " + low + " to " + high);
    }

    /** A lease of `leaseMs` that began a moment ago, and so is no other one. */
    static void assertLeft(long leaseMs, long remainingMs) {
        assertBetween(leaseMs - LEASE_MS / 2, leaseMs, remainingMs);
    }

    // ---- other threads

    /** Something that goes on in a thread of its own. */
    static final class Going<T> {
        private final CompletableFuture<T> end = new CompletableFuture<>();
        private volatile long endedMs;

        private Going(Callable<T> work) {
            Thread thread = new Thread(() -> {
                try {
                    T result = work.call();
                    endedMs = now();
                    end.complete(result);
                } catch (Throwable e) {
                    end.completeExceptionally(e);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        boolean ended() {
            return end.isDone();
        }

        T await(long ms) throws InterruptedException {
            try {
                return end.get(ms, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                throw new AssertionError("not within " + ms + " ms", e);
            } catch (ExecutionException e) {
                throw new AssertionError(e.getCause());
            }
        }

        /** From `startMs` to its end. */
        long tookMs(long startMs) throws InterruptedException {
            await(WAIT_MS + 5000);
            return endedMs - startMs;
        }

        void staysOut(long ms) {
            long until = now() + ms;
            do {
                assertTrue(!ended(), "came in while somebody else holds");
                nap(10);
            } while (now() < until);
        }
    }

    /** It came in so long after `sinceMs`; the waiter's result is when that was. */
    static void assertIn(Going<Long> waiter, long sinceMs, long earliestMs, long latestMs)
        throws InterruptedException {
        assertBetween(earliestMs, latestMs, waiter.await(WAIT_MS + 5000) - sinceMs);
    }

    /** What lets others in. */
    interface Act {
        void run() throws Exception;
    }

    @SafeVarargs
    static void assertLetsIn(Act act, long latestMs, Going<Long>... waiters) throws Exception {
        assertLetsIn(act, latestMs, List.of(waiters));
    }

    /** All of the waiters come in within `latestMs` of the act. */
    static void assertLetsIn(Act act, long latestMs, List<Going<Long>> waiters)
        throws Exception {
        long start = now();
        act.run();
        for (Going<Long> waiter : waiters) {
            assertIn(waiter, start, 0, latestMs);
        }
    }

    static <T> Going<T> go(Callable<T> work) {
        return new Going<>(work);
    }
}
