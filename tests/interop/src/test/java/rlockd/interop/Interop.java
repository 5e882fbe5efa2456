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
    /** Longer than any test takes, so that nothing expires unless a test wants it. */
    static final long LEASE_MS = 30_000;
    /** How long somebody may wait who must not be woken by a time-out of anything. */
    static final long WAIT_MS = 20_000;
    /** By then somebody who was woken is in: far below the poll of rlockd and the lease. */
    static final long AT_ONCE_MS = 1000;

    private static final AtomicInteger NAMES = new AtomicInteger();

    /** Set before each test: an object by itself needs none. */
    World world;
    private final List<String> names = new ArrayList<>();
    private String method;

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

    @AfterEach
    void leavesNothing() {
        try {
            eventually("nothing is left", 3000, () -> remains(this::isLeftByUs).isEmpty(),
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
            boolean passing = ttlMs >= 0 && ttlMs <= 120_000
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
    final void awaitListener(String channel) {
        eventually("somebody listens to " + channel, 5000, () -> world.listeners(channel) > 0);
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

    static <T> Going<T> go(Callable<T> work) {
        return new Going<>(work);
    }
}
