package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
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

/** Java threads and REST clients fight for a few objects; what those protect is seen by one. */
@Isolated("it measures, and at its end looks for anything left of any test")
final class RaceTest extends Interop {
    private static final int CLIENTS_OF_A_SIDE = 8;
    private static final int ARENAS = 3;
    private static final long RACE_MS = 4000;

    private Contest contest;
    private final List<Arena> arenas = new ArrayList<>();
    private final Queue<Long> handOffsUs = new ConcurrentLinkedQueue<>();
    private volatile boolean over;

    static Stream<Contest> contests() {
        return Stream.of(
            new LockContest(new RLockTest()), new LockContest(new RFencedLockTest()),
            new LockContest(new RSpinLockTest()), new LockContest(new RFairLockTest()),
            new LockContest(new RWriteLockTest()),
            new ReadWriteContest(2 * CLIENTS_OF_A_SIDE),
            new SemaphoreContest(), new PermitContest());
    }

    @Override
    String object() {
        return contest == null ? super.object() : contest.object();
    }

    /** What somebody who is in has alone: plain numbers, which go wrong when two have them. */
    private static final class Place {
        long counter;
        long freedNs;
    }

    /** One of what is raced for, and as many places as it lets in. */
    private static final class Arena {
        final String name;
        final Queue<Place> free = new ConcurrentLinkedQueue<>();
        final List<Place> places = new ArrayList<>();
        final AtomicInteger inside = new AtomicInteger();
        final AtomicInteger mostInside = new AtomicInteger();
        /** Of the last one who had all places. */
        long lastToken;

        Arena(String name, int permits) {
            this.name = name;
            for (int i = 0; i < permits; i++) {
                places.add(new Place());
            }
            free.addAll(places);
        }

        List<Place> enter(int count) {
            List<Place> taken = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Place place = free.poll();
                assertNotNull(place, "too many are in " + name);
                taken.add(place);
            }
            mostInside.accumulateAndGet(inside.addAndGet(count), Math::max);
            return taken;
        }

        void leave(List<Place> taken) {
            inside.addAndGet(-taken.size());
            taken.forEach(place -> place.freedNs = System.nanoTime());
            free.addAll(taken);
        }
    }

    private interface Turns {
        Contest.Turn of(String name);
    }

    @ParameterizedTest
    @MethodSource("contests")
    @Tag(Direction.BothWays.TAG)
    void race(Contest contest) throws Exception {
        this.contest = contest;
        for (int i = 0; i < ARENAS; i++) {
            String name = newName();
            arenas.add(new Arena(name, contest.open(world, name)));
        }
        List<Going<Integer>> javas = new ArrayList<>();
        List<Going<Integer>> rests = new ArrayList<>();
        for (int i = 0; i < CLIENTS_OF_A_SIDE; i++) {
            boolean odd = i % 2 == 1;
            javas.add(go(() -> run(name ->
                contest.java(odd ? world.java : world.otherJava, name))));
            rests.add(go(() -> run(name ->
                contest.rest(odd ? world.front : world.otherFront, name))));
        }
        nap(RACE_MS);
        over = true;
        int javaGrants = grants(javas);
        int restGrants = grants(rests);
        report(javaGrants, restGrants);
        assertTrue(javaGrants > 0 && restGrants > 0);
        long counted = 0;
        for (Arena arena : arenas) {
            assertEquals(arena.places.size(), arena.mostInside.get(), "were in at once");
            counted += arena.places.stream().mapToLong(place -> place.counter).sum();
            contest.close(world, arena.name);
        }
        assertEquals(javaGrants + restGrants, counted);
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

    private int run(Turns turns) throws Exception {
        int grants = 0;
        while (!over) {
            Arena arena = arenas.get(ThreadLocalRandom.current().nextInt(ARENAS));
            Contest.Turn turn = turns.of(arena.name);
            long askedNs = System.nanoTime();
            OptionalLong token = turn.enter();
            protectedWork(arena, turn.places(), askedNs, token);
            turn.leave();
            grants++;
        }
        return grants;
    }

    private void protectedWork(Arena arena, int places, long askedNs, OptionalLong token) {
        long inNs = System.nanoTime();
        List<Place> taken = arena.enter(places);
        long freedNs = taken.stream().mapToLong(place -> place.freedNs).max().orElseThrow();
        if (freedNs > askedNs) {
            handOffsUs.add((inNs - freedNs) / 1000);
        }
        token.ifPresent(it -> {
            assertTrue(it > arena.lastToken, it + " after " + arena.lastToken);
            if (places == arena.places.size()) {
                arena.lastToken = it;
            }
        });
        long counter = taken.get(0).counter;
        nap(1);
        taken.get(0).counter = counter + 1;
        arena.leave(taken);
    }

    private void report(int javaGrants, int restGrants) {
        long[] sorted = handOffsUs.stream().mapToLong(Long::longValue).sorted().toArray();
        assertTrue(sorted.length > 0, "nobody waited");
        double p50 = sorted[sorted.length / 2] / 1000.0;
        double p99 = sorted[Math.min(sorted.length - 1, sorted.length * 99 / 100)] / 1000.0;
        double longest = sorted[sorted.length - 1] / 1000.0;
        Report.line("race.txt", String.format(
            "%s: %d Java and %d REST grants of %d, each for %d at a time; %d hand-offs,"
            + " p50 %.1f ms, p99 %.1f ms, longest %.1f ms", object(), javaGrants, restGrants,
            ARENAS, arenas.get(0).places.size(), sorted.length, p50, p99, longest));
        // A wake-up that was lost shows as the wait for a poll, 4 s at least.
        assertTrue(longest < Math.max(4000, contest.atOnceMs()), longest + " ms");
        assertTrue(p99 < contest.atOnceMs(), "hand-off p99: " + p99 + " ms");
    }
}
