package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.redisson.api.RLock;
import rlockd.interop.Direction.JavaToRest;

/** Java's holders in the listing by held time, and in the log of long holds. */
final class CensusTest extends Interop {
    private static final String LONG_MS = "1000";
    private static final String BEGUN = "a lock is held for long";
    private static final String ENDED = "a long hold has ended";

    private static Rest front;

    /** With a prefix of its own, and so a census that other front ends take no part in. */
    private static final String PREFIX = "census:";

    @Override
    String object() {
        return "RLock";
    }

    @BeforeEach
    void startFront() throws IOException {
        synchronized (CensusTest.class) {
            if (front == null) {
                front = world.startFront("front-census", 0, World.RETRY_WINDOW_MS,
                    "--key-prefix", PREFIX, "--long-hold-ms", LONG_MS);
            }
        }
    }

    /** The lock in the listing; null: it is not there. */
    private static Map<?, ?> held(String name) {
        List<?> locks = (List<?>) front.get("/v1/locks?order=held").expect(200).member("locks");
        return locks.stream().map(lock -> (Map<?, ?>) lock)
            .filter(lock -> name.equals(lock.get("lock"))).findFirst().orElse(null);
    }

    private static long lines(String event, String name) {
        Path log = Path.of(System.getProperty("interop.dir")).resolve("front-census.log");
        try {
            return Files.readString(log).lines()
                .filter(line -> line.contains(event) && line.contains('"' + name + '"'))
                .count();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private void isListedAndTold(String name, RLock lock) {
        lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
        eventually("the hold is listed", CONDITION_MS, () -> held(name) != null);
        assertEquals(true, held(name).get("held_at_least"));
        eventually("the hold is told", CONDITION_MS, () -> lines(BEGUN, name) > 0);
        assertTrue(((Number) held(name).get("held_ms")).longValue() >= 1000);
        lock.unlock();
        eventually("the end of the hold is told", CONDITION_MS, () -> lines(ENDED, name) > 0);
        assertEquals(null, held(name));
        assertEquals(1, lines(BEGUN, name));
        assertEquals(1, lines(ENDED, name));
    }

    @JavaToRest
    void aLongHoldBeginsAndEnds() {
        String name = newName();
        isListedAndTold(name, world.java.getLock(PREFIX + name));
    }

    @JavaToRest
    void aLongWriteBeginsAndEnds() {
        String name = newName();
        isListedAndTold(name, world.java.getReadWriteLock(PREFIX + name).writeLock());
    }
}
