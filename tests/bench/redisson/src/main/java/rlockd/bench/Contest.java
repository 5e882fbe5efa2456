package rlockd.bench;

import java.util.Arrays;
import java.util.Locale;
import org.redisson.api.RedissonClient;

/** Threads that take turns at one lock, or each at a lock of its own. */
final class Contest {
    /** Redisson may lose a wake-up: then its threads sleep until a lease of 30 s would have ended. */
    private static final long END_TIMEOUT_MS = 10_000;
    private static final long INTERRUPTED_TIMEOUT_MS = 5_000;

    /** A turn outside the window is not counted. */
    enum Phase { WARM_UP, WINDOW, STOPPED }

    volatile Phase phase = Phase.WARM_UP;
    private final Contender[] contenders;
    private long startedNs;

    Contest(RedissonClient client, String kind, String name, int threads) throws Exception {
        contenders = new Contender[threads];
        for (int i = 0; i < threads; i++) {
            contenders[i] = new Contender(this, Turn.of(client, kind, name, i));
        }
        for (Contender contender : contenders) {
            contender.start();
        }
    }

    void measure() {
        startedNs = System.nanoTime();
        phase = Phase.WINDOW;
    }

    String stop() throws InterruptedException {
        phase = Phase.STOPPED;
        long endedNs = System.nanoTime();
        long[] unfinished = Arrays.stream(contenders).mapToLong(c -> c.askedNs)
            .filter(asked -> asked != 0).map(asked -> endedNs - asked).toArray();
        int stuck = join(END_TIMEOUT_MS);
        if (stuck > 0) {
            Arrays.stream(contenders).forEach(Thread::interrupt);
            join(INTERRUPTED_TIMEOUT_MS);
        }
        for (Contender contender : contenders) {
            if (contender.isAlive() || contender.failure != null) {
                throw new IllegalStateException("a contender failed", contender.failure);
            }
        }
        return json((endedNs - startedNs) / 1e9, unfinished, stuck);
    }

    /** Waits for all contenders together; how many have not ended. */
    private int join(long timeoutMs) throws InterruptedException {
        long endNs = System.nanoTime() + timeoutMs * 1_000_000;
        for (Contender contender : contenders) {
            contender.join(Math.max(1, (endNs - System.nanoTime()) / 1_000_000));
        }
        return (int) Arrays.stream(contenders).filter(Thread::isAlive).count();
    }

    /**
     * The same figures as those of `load contend`. A wait that is not over counts with its length
     * so far. Stuck: contenders that had to be interrupted long after the window.
     */
    private String json(double tookS, long[] unfinished, int stuck) {
        Samples waits = new Samples();
        Samples releases = new Samples();
        Arrays.stream(unfinished).forEach(waits::add);
        double sum = 0;
        double squares = 0;
        for (Contender contender : contenders) {
            double turns = contender.waits.count();
            sum += turns;
            squares += turns * turns;
            waits.addAll(contender.waits);
            releases.addAll(contender.releases);
        }
        double jain = squares > 0 ? sum * sum / (contenders.length * squares) : 0;
        return String.format(Locale.ROOT,
            "{\"turns\": %.0f, \"turns_per_s\": %.1f, \"jain\": %.4f, \"stuck\": %d, %s, %s}",
            sum, sum / tookS, jain, stuck, waits.json("wait"), releases.json("release"));
    }
}
