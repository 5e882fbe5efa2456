package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.parallel.Isolated;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.redisson.api.RLock;

/** Java threads and REST clients fight for a few locks; what those protect is seen by one. */
@Isolated("it measures, and at its end looks for anything left of any test")
final class RaceTest extends Interop {
    private static final int CLIENTS_OF_A_SIDE = 8;
    private static final int LOCKS = 3;
    private static final long RACE_MS = 4000;

    private LockScenarios object;
    private final Arena[] arenas = new Arena[LOCKS];
    private final Queue<Long> handOffsUs = new ConcurrentLinkedQueue<>();
    private volatile boolean over;

    static Stream<LockScenarios> objects() {
        return Stream.of(new RLockTest(), new RFencedLockTest(), new RSpinLockTest());
    }

    @Override
    String object() {
        return object == null ? super.object() : object.object();
    }

    /** What a lock protects: plain numbers, which go wrong without it. */
    private static final class Arena {
        final String name;
        final AtomicInteger inside = new AtomicInteger();
        long counter;
        long lastToken;
        long freedNs;

        Arena(String name) {
            this.name = name;
        }
    }

    private interface Turn {
        /** Acquires within WAIT_MS; the token, if it has one. */
        OptionalLong enter() throws Exception;

        void leave() throws Exception;
    }

    @ParameterizedTest
    @MethodSource("objects")
    @Tag(Direction.BothWays.TAG)
    void race(LockScenarios object) throws Exception {
        this.object = object;
        for (int i = 0; i < LOCKS; i++) {
            arenas[i] = new Arena(newName());
        }
        List<Going<Integer>> javas = new ArrayList<>();
        List<Going<Integer>> rests = new ArrayList<>();
        for (int i = 0; i < CLIENTS_OF_A_SIDE; i++) {
            boolean odd = i % 2 == 1;
            javas.add(go(() -> run(arena -> javaTurn(arena, odd))));
            rests.add(go(() -> run(arena -> restTurn(arena, odd))));
        }
        nap(RACE_MS);
        over = true;
        int javaGrants = grants(javas);
        int restGrants = grants(rests);
        report(javaGrants, restGrants);
        assertTrue(javaGrants > 0 && restGrants > 0);
        assertEquals(javaGrants + restGrants,
            Arrays.stream(arenas).mapToLong(arena -> arena.counter).sum());
        eventually("no key is left", 5000, () -> remains(key -> true).isEmpty(),
            () -> remains(key -> true).toString());
    }

    private static int grants(List<Going<Integer>> clients) throws InterruptedException {
        int grants = 0;
        for (Going<Integer> client : clients) {
            grants += client.await(WAIT_MS + 5000);
        }
        return grants;
    }

    private interface Turns {
        Turn of(Arena arena);
    }

    private int run(Turns turns) throws Exception {
        int grants = 0;
        while (!over) {
            Arena arena = arenas[ThreadLocalRandom.current().nextInt(LOCKS)];
            Turn turn = turns.of(arena);
            long askedNs = System.nanoTime();
            OptionalLong token = turn.enter();
            protectedWork(arena, askedNs, token);
            turn.leave();
            grants++;
        }
        return grants;
    }

    private void protectedWork(Arena arena, long askedNs, OptionalLong token) {
        long inNs = System.nanoTime();
        assertEquals(1, arena.inside.incrementAndGet(), "two hold " + arena.name);
        if (arena.freedNs > askedNs) {
            handOffsUs.add((inNs - arena.freedNs) / 1000);
        }
        token.ifPresent(it -> {
            assertTrue(it > arena.lastToken, it + " after " + arena.lastToken);
            arena.lastToken = it;
        });
        long counter = arena.counter;
        nap(1);
        arena.counter = counter + 1;
        arena.inside.decrementAndGet();
        arena.freedNs = System.nanoTime();
    }

    private Turn javaTurn(Arena arena, boolean odd) {
        RLock lock = object.java(odd ? world.java : world.otherJava, arena.name);
        return new Turn() {
            @Override
            public OptionalLong enter() throws Exception {
                assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "waited in vain");
                return object.javaToken(lock);
            }

            @Override
            public void leave() {
                lock.unlock();
            }
        };
    }

    private Turn restTurn(Arena arena, boolean odd) {
        Lease lease = object.rest(odd ? world.front : world.otherFront, arena.name).lease();
        return new Turn() {
            @Override
            public OptionalLong enter() {
                Rest.Answer granted =
                    lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
                return OptionalLong.of(granted.number("fencing_token"));
            }

            @Override
            public void leave() {
                lease.release().expect(200);
            }
        };
    }

    private void report(int javaGrants, int restGrants) {
        long[] sorted = handOffsUs.stream().mapToLong(Long::longValue).sorted().toArray();
        assertTrue(sorted.length > 0, "nobody waited");
        double p50 = sorted[sorted.length / 2] / 1000.0;
        double p99 = sorted[Math.min(sorted.length - 1, sorted.length * 99 / 100)] / 1000.0;
        double longest = sorted[sorted.length - 1] / 1000.0;
        Report.line("race.txt", String.format(
            "%s: %d Java and %d REST grants on %d locks; %d hand-offs, p50 %.1f ms,"
            + " p99 %.1f ms, longest %.1f ms", object(), javaGrants, restGrants, LOCKS,
            sorted.length, p50, p99, longest));
        // A wake-up that was lost shows as the wait for a poll, 4 s at least.
        assertTrue(longest < Math.max(4000, object.javaReleaseSeenMs()), longest + " ms");
        assertTrue(p99 < object.javaReleaseSeenMs(), "hand-off p99: " + p99 + " ms");
    }
}
