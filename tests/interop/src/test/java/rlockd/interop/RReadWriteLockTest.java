package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** Readers and writers together; each of them alone is RReadLockTest and RWriteLockTest. */
final class RReadWriteLockTest extends Interop {
    private RReadWriteLock java(String name) {
        return world.java.getReadWriteLock(name);
    }

    private RReadWriteLock otherJava(String name) {
        return world.otherJava.getReadWriteLock(name);
    }

    private RestLock reader(String name) {
        return new RestLock(world.front, name, "read");
    }

    private RestLock writer(String name) {
        return new RestLock(world.otherFront, name, "write");
    }

    private Going<Rest.Answer> waits(Lease lease, RestLock lock, int waiters) {
        Going<Rest.Answer> going =
            go(() -> lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS));
        lock.awaitWaiters(waiters, going);
        return going;
    }

    /** A Java client that waits for it, in a thread of its own, and lets go. */
    private Going<Long> javaTakes(RLock lock) {
        return go(() -> {
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            long inMs = now();
            lock.unlock();
            return inMs;
        });
    }

    @BothWays
    void readersOfBothSidesShare() throws Exception {
        String name = newName();
        RLock java = java(name).readLock();
        java.lock(LEASE_MS, MILLISECONDS);
        Lease rest = reader(name).lease();
        rest.acquire("ttl_ms", LEASE_MS).expect(201);
        RLock other = otherJava(name).readLock();
        assertTrue(other.tryLock(0, LEASE_MS, MILLISECONDS));
        Rest.Answer state = reader(name).look();
        assertEquals("read", state.string("kind"));
        assertEquals("read", state.string("holders.2.kind"));
        other.unlock();
        java.unlock();
        assertEquals(1, reader(name).look().number("holders.0.hold_count"));
        rest.release().expect(200);
        assertEquals(false, reader(name).look().member("locked"));
    }

    /** A writer of either side is let in by the last reader, whichever side it is of. */
    @BothWays
    void aWriterWaitsForTheReadersOfBothSides() throws Exception {
        for (boolean javaIsLast : new boolean[] {true, false}) {
            String name = newName();
            RLock java = java(name).readLock();
            java.lock(LEASE_MS, MILLISECONDS);
            Lease rest = reader(name).lease();
            rest.acquire("ttl_ms", LEASE_MS).expect(201);
            Lease writer = writer(name).lease();
            Going<Rest.Answer> restWrites = waits(writer, writer(name), 1);
            if (javaIsLast) {
                rest.release().expect(200);
            } else {
                java.unlock();
            }
            restWrites.staysOut(300);
            assertFalse(otherJava(name).writeLock().tryLock());
            long start = now();
            if (javaIsLast) {
                java.unlock();
            } else {
                rest.release().expect(200);
            }
            assertBetween(0, AT_ONCE_MS, restWrites.tookMs(start));
            restWrites.await(0).expect(201);
            Going<Long> javaWrites = javaTakes(otherJava(name).writeLock());
            javaWrites.staysOut(300);
            start = now();
            writer.release().expect(200);
            assertBetween(0, SOON_MS, javaWrites.await(WAIT_MS) - start);
        }
    }

    @JavaToRest
    void allRestReadersGetInWhenAJavaWriterLeaves() throws Exception {
        String name = newName();
        RLock java = java(name).writeLock();
        java.lock(LEASE_MS, MILLISECONDS);
        List<Lease> leases = new ArrayList<>();
        List<Going<Rest.Answer>> readers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            leases.add(reader(name).lease());
            readers.add(waits(leases.get(i), reader(name), i + 1));
        }
        long start = now();
        java.unlock();
        for (Going<Rest.Answer> reader : readers) {
            assertBetween(0, AT_ONCE_MS, reader.tookMs(start));
            reader.await(0).expect(201);
        }
        for (Lease lease : leases) {
            lease.release().expect(200);
        }
    }

    @RestToJava
    void allJavaReadersGetInWhenARestWriterLeaves() throws Exception {
        String name = newName();
        Lease writer = writer(name).lease();
        writer.acquire("ttl_ms", LEASE_MS).expect(201);
        List<Going<Long>> readers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            readers.add(javaTakes((i % 2 == 0 ? java(name) : otherJava(name)).readLock()));
        }
        eventually("both clients listen", CONDITION_MS,
            () -> world.listeners(companion("redisson_rwlock", name)) == 2);
        nap(500);
        long start = now();
        writer.release().expect(200);
        for (Going<Long> reader : readers) {
            assertBetween(0, SOON_MS, reader.await(WAIT_MS) - start);
        }
    }

    /** Whoever writes may read as well, and goes on as a reader when it writes no more. */
    @RestToJava
    void restsWriterBecomesAReader() throws Exception {
        String name = newName();
        Session session = new Session(world.front, LEASE_MS);
        Lease write = writer(name).lease(session, "worker");
        Lease read = reader(name).lease(session, "worker");
        write.acquire("ttl_ms", LEASE_MS).expect(201);
        read.acquire("ttl_ms", LEASE_MS).expect(201);
        Going<Long> javaReads = javaTakes(java(name).readLock());
        awaitListenerOfAny(List.of(name), javaReads);
        javaReads.staysOut(300);
        long start = now();
        write.release().expect(200);
        assertBetween(0, SOON_MS, javaReads.await(WAIT_MS) - start);
        Going<Long> javaWrites = javaTakes(java(name).writeLock());
        awaitListenerOfAny(List.of(name), javaWrites);
        javaWrites.staysOut(300);
        start = now();
        read.release().expect(200);
        assertBetween(0, SOON_MS, javaWrites.await(WAIT_MS) - start);
        session.end();
    }

    /** The release of the longest read is told, though the lock is not free: Java sleeps. */
    @RestToJava
    void javasWriterHearsThatTheLongestReadIsOver() throws Exception {
        String name = newName();
        int briefMs = 3000;
        Lease longest = reader(name).lease();
        longest.acquire("ttl_ms", 10 * LEASE_MS).expect(201);
        Going<Long> javaWrites = javaTakes(java(name).writeLock());
        awaitListenerOfAny(List.of(name), javaWrites);
        javaWrites.staysOut(300);
        long start = now();
        reader(name).lease().acquire("ttl_ms", briefMs).expect(201); // and dies
        longest.release().expect(200);
        assertBetween(0, briefMs + SOON_MS, javaWrites.await(WAIT_MS) - start);
    }

    /** Redisson tells nobody that its writer goes on as a reader: our readers poll. */
    @JavaToRest
    void javasWriterBecomesAReader() throws Exception {
        String name = newName();
        RReadWriteLock java = java(name);
        java.writeLock().lock(LEASE_MS, MILLISECONDS);
        java.readLock().lock(LEASE_MS, MILLISECONDS);
        Lease reader = reader(name).lease();
        Going<Rest.Answer> restReads = waits(reader, reader(name), 1);
        long start = now();
        java.writeLock().unlock();
        assertBetween(0, POLL_MS + SOON_MS, restReads.tookMs(start));
        restReads.await(0).expect(201);
        Lease writer = writer(name).lease();
        Going<Rest.Answer> restWrites = waits(writer, writer(name), 1);
        java.readLock().unlock();
        restWrites.staysOut(300);
        start = now();
        reader.release().expect(200);
        assertBetween(0, AT_ONCE_MS, restWrites.tookMs(start));
        writer.release().expect(200);
    }

    /**
     * Each read has a time of its own, and one that is over keeps no writer out. Before 4.4 the
     * watchdog of any Java reader kept the reads of all others, dead or alive.
     */
    @BothWays
    void aReaderThatDiedKeepsNobodyOut() throws Exception {
        String name = newName();
        reader(name).lease().acquire("ttl_ms", 1000).expect(201);
        RLock java = java(name).readLock();
        java.lock(); // its watchdog keeps the hash, and so the dead reader's field
        RLock shortLived = otherJava(name).readLock();
        shortLived.lock(1000, MILLISECONDS);
        nap(1200);
        boolean keepsTheDead = World.isBefore(4, 4);
        if (!keepsTheDead) {
            assertEquals(null, reader(name).look().member("holders.1"));
        }
        Lease writer = writer(name).lease();
        Going<Rest.Answer> restWrites = waits(writer, writer(name), 1);
        long start = now();
        java.unlock();
        assertBetween(0, (keepsTheDead ? World.WATCHDOG_MS : 0) + AT_ONCE_MS,
            restWrites.tookMs(start));
        restWrites.await(0).expect(201);
        writer.release().expect(200);
    }

    /**
     * The watchdogs renew each its own reads, side by side. That of Java before 4.4 sets the
     * times of all reads, also of one that is to last longer.
     */
    @BothWays
    void watchdogsOfReadersSideBySide() throws Exception {
        String name = newName();
        Session session = new Session(world.front, SESSION_MS).keptAlive(300);
        Lease rest = reader(name).lease(session);
        rest.acquire().expect(201);
        Lease longer = reader(name).lease(session);
        longer.acquire("ttl_ms", LEASE_MS).expect(201);
        RLock java = java(name).readLock();
        java.lock();
        nap(World.WATCHDOG_MS / 2);
        Lease writer = writer(name).lease();
        Going<Rest.Answer> restWrites = waits(writer, writer(name), 1);
        restWrites.staysOut(World.WATCHDOG_MS);
        assertTrue(java.isHeldByCurrentThread());
        assertEquals(1, session.keepAlive().expect(200).number("leases.0.fencing_token")
            > 0 ? 1 : 0);
        java.unlock();
        restWrites.staysOut(World.WATCHDOG_MS + 500);
        rest.release().expect(200);
        restWrites.staysOut(300);
        long start = now();
        longer.release().expect(200);
        assertBetween(0, AT_ONCE_MS, restWrites.tookMs(start));
        writer.release().expect(200);
        session.end();
    }
}
