package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
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
            MultiLockContest.ofLocks(),
            MultiLockContest.ofReadWriteLocks(2 * CLIENTS_OF_A_SIDE),
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
        Contest.Turn of(List<String> names);
    }

    @ParameterizedTest
    @MethodSource("contests")
    @Tag(Direction.BothWays.TAG)
    void race(Contest contest) throws Exception {
        this.contest = contest;
        for (int i = 0; i < ARENAS; i++) {
            String name = newName();
            if (contest.mostAtOnce() > 1) {
                name = inOneSlot("race") + name;
            }
            arenas.add(new Arena(name, contest.open(world, name)));
        }
        List<Going<Integer>> javas = new ArrayList<>();
        List<Going<Integer>> rests = new ArrayList<>();
        for (int i = 0; i < CLIENTS_OF_A_SIDE; i++) {
            boolean odd = i % 2 == 1;
            javas.add(go(() -> run(names ->
                contest.java(odd ? world.java : world.otherJava, names))));
            rests.add(go(() -> run(names ->
                contest.rest(odd ? world.front : world.otherFront, names))));
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
        eventually("no key is left", CONDITION_MS, () -> remains(key -> true).isEmpty(),
            () -> remains(key -> true).toString());
    }

    private static int grants(List<Going<Integer>> clients) throws InterruptedException {
        int grants = 0;
        for (Going<Integer> client : clients) {
            grants += client.await(WAIT_MS + 5000);
        }
        return grants;
    }

    /** Some of them, in any order. */
    private List<Arena> pick() {
        List<Arena> shuffled = new ArrayList<>(arenas);
        Collections.shuffle(shuffled, ThreadLocalRandom.current());
        int count = 1 + ThreadLocalRandom.current().nextInt(contest.mostAtOnce());
        return shuffled.subList(0, count);
    }

    private int run(Turns turns) throws Exception {
        int grants = 0;
        while (!over) {
            List<Arena> some = pick();
            Contest.Turn turn = turns.of(some.stream().map(arena -> arena.name).toList());
            long askedNs = System.nanoTime();
            turn.enter();
            protectedWork(some, turn, askedNs);
            turn.leave();
            grants += some.size();
        }
        return grants;
    }

    private void protectedWork(List<Arena> some, Contest.Turn turn, long askedNs) {
        long inNs = System.nanoTime();
        List<List<Place>> taken =
            some.stream().map(arena -> arena.enter(turn.places())).toList();
        long freedNs = taken.stream().flatMap(List::stream)
            .mapToLong(place -> place.freedNs).max().orElseThrow();
        if (freedNs > askedNs) {
            handOffsUs.add((inNs - freedNs) / 1000);
        }
        some.forEach(arena -> checkToken(arena, turn));
        long[] counters = taken.stream().mapToLong(places -> places.get(0).counter).toArray();
        nap(1);
        for (int i = 0; i < counters.length; i++) {
            taken.get(i).get(0).counter = counters[i] + 1;
            some.get(i).leave(taken.get(i));
        }
    }

    private static void checkToken(Arena arena, Contest.Turn turn) {
        turn.token(arena.name).ifPresent(token -> {
            assertTrue(token > arena.lastToken, token + " after " + arena.lastToken);
            if (turn.places() == arena.places.size()) {
                arena.lastToken = token;
            }
        });
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
    }
}
