package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/**
 * How a lock, or locks that are taken together, pass from a client of one side to a client of the
 * other side. `names`: of all the locks that are taken together; a lock by itself has one name.
 */
abstract class HandOverScenarios extends Interop implements KilledClient.Holding {
    /** A new name, from which the names of the locks are made. */
    abstract String newCommonName();

    abstract String[] namesOf(String commonName);

    /** All of the locks, for a Java client; they exclude what lease() takes. */
    abstract RLock java(RedissonClient client, String... names);

    /** What waits for them: the same, unless those share. */
    abstract RLock javaRival(RedissonClient client, String... names);

    /** One of them. */
    abstract RLock member(RedissonClient client, String name);

    /** All of them, for a REST client. */
    abstract Lease lease(Rest front, Session session, String... names);

    /** A Java client that waits, gets in, and goes again; when it got in. */
    abstract Going<Long> javaWaits(String... names);

    /** The same of a REST client, at the other front end. */
    abstract Going<Long> restWaits(String... names);

    /** Returns when a Java client waits for one of them, or waits no more. */
    void awaitJava(Going<?> waits, String... names) {
        awaitListenerOfAny(List.of(names), waits);
    }

    /** What unlock() does when a lock was lost. */
    abstract void unlockLost(RLock lost);

    /** `kind` of the acquire request. */
    String kind() {
        return "lock";
    }

    /** `kind` of the request that waits: the same, unless those share. */
    String rivalKind() {
        return kind();
    }

    /** By then REST waiters notice that a Java client let go. */
    long javaReleaseSeenMs() {
        return AT_ONCE_MS;
    }

    @Override
    public void hold(RedissonClient client, String name) {
        java(client, namesOf(name)).lock();
    }

    @Override
    public void hold(Rest front, Session session, String name) {
        lease(front, session, namesOf(name)).acquire().expect(201);
    }

    private String[] newLocks() {
        return namesOf(newCommonName());
    }

    /** Who waits asks for the locks in another order than who holds. */
    private static String[] reversed(String... names) {
        String[] reversed = new String[names.length];
        for (int i = 0; i < names.length; i++) {
            reversed[i] = names[names.length - 1 - i];
        }
        return reversed;
    }

    final Lease held(Lease lease) {
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        return lease;
    }

    private Lease held(String... names) {
        return held(lease(world.front, null, names));
    }

    /** One of them by itself, for a REST client. */
    final RestLock one(String name) {
        return new RestLock(world.front, name, kind());
    }

    private void assertHoldCount(int count, String... names) {
        for (String name : names) {
            assertEquals(count, one(name).look().number("holders.0.hold_count"), name);
        }
    }

    void assertHeld(Lease lease, String... names) {
        for (String name : names) {
            assertEquals(true, one(name).look().member("locked"), name);
        }
    }

    // ---- release

    @JavaToRest
    void restGetsInWhenJavaReleases() throws Exception {
        String[] names = newLocks();
        RLock lock = java(world.java, names);
        lock.lock(LEASE_MS, MILLISECONDS);
        Going<Long> waiter = restWaits(reversed(names));
        waiter.staysOut(300);
        assertLetsIn(lock::unlock, javaReleaseSeenMs(), waiter);
    }

    @RestToJava
    void javaGetsInWhenRestReleases() throws Exception {
        String[] names = newLocks();
        Lease lease = held(names);
        Going<Long> waiter = javaWaits(reversed(names));
        waiter.staysOut(300);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiter);
    }

    private interface WayOfWaiting {
        void in(RLock lock) throws Exception;
    }

    /** Each of these is code of its own in Redisson. */
    @RestToJava
    void everyWayOfJavaToWaitEndsWhenRestReleases() throws Exception {
        List<WayOfWaiting> ways = List.of(
            lock -> lock.lock(),
            lock -> lock.lockInterruptibly(LEASE_MS, MILLISECONDS),
            lock -> assertTrue(lock.tryLock(WAIT_MS, MILLISECONDS)),
            lock -> lock.lockAsync(LEASE_MS, MILLISECONDS).get(),
            lock -> assertTrue(lock.tryLockAsync(WAIT_MS, LEASE_MS, MILLISECONDS).get()));
        for (WayOfWaiting way : ways) {
            String[] names = newLocks();
            Lease lease = held(names);
            Going<Long> waiter = go(() -> {
                RLock lock = javaRival(world.otherJava, names);
                way.in(lock);
                long inMs = now();
                lock.unlock();
                return inMs;
            });
            awaitJava(waiter, names);
            waiter.staysOut(300);
            assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiter);
        }
    }

    // ---- expiry

    @JavaToRest
    void restGetsInWhenJavasLeaseExpires() throws Exception {
        String[] names = newLocks();
        RLock lock = java(world.java, names);
        long start = now();
        lock.lock(1500, MILLISECONDS);
        Going<Long> waiter = restWaits(reversed(names));
        assertIn(waiter, start, 1490, AT_ONCE_MS); // no poll
        unlockLost(lock);
    }

    @RestToJava
    void javaGetsInWhenRestsLeaseExpires() throws Exception {
        String[] names = newLocks();
        Lease lease = lease(world.front, null, names);
        long start = now();
        lease.acquire("ttl_ms", 1500).expect(201);
        Going<Long> waiter = javaWaits(reversed(names));
        assertIn(waiter, start, 1490, 1500 + SOON_MS);
        assertEquals("expired", lease.renew(LEASE_MS).expect(410).string("reason"));
        lease.release().expect(410);
    }

    /** Java sleeps for as long as it was told when it asked. */
    @RestToJava
    void javaHearsThatRestsLeaseWasShortened() throws Exception {
        String[] names = newLocks();
        Lease lease = held(names);
        Going<Long> waiter = javaWaits(reversed(names));
        waiter.staysOut(300);
        long start = now();
        lease.renew(1000).expect(200);
        assertIn(waiter, start, 990, 1000 + SOON_MS);
    }

    // ---- sessions

    @RestToJava
    void javaGetsInWhenTheSessionIsDeleted() throws Exception {
        String[] names = newLocks();
        Session session = new Session(world.front, LEASE_MS).keptAlive(300);
        held(lease(world.front, session, names));
        Going<Long> waiter = javaWaits(names);
        waiter.staysOut(300);
        assertLetsIn(() -> assertEquals(1, session.end().number("released")), SOON_MS, waiter);
    }

    @RestToJava
    void javaGetsInWhenTheSessionFallsSilent() throws Exception {
        String[] names = newLocks();
        long start = now();
        Session session = new Session(world.front, SESSION_MS);
        held(lease(world.front, session, names));
        assertIn(javaWaits(names), start, SESSION_MS - 10, SESSION_MS + SOON_MS);
    }

    // ---- reentrancy

    @JavaToRest
    void javaHoldsTwice() throws Exception {
        String[] names = newLocks();
        RLock lock = java(world.java, names);
        lock.lock(LEASE_MS, MILLISECONDS);
        lock.lock(LEASE_MS, MILLISECONDS);
        assertHoldCount(2, names);
        Going<Long> waiter = restWaits(names);
        lock.unlock();
        assertHoldCount(1, names);
        waiter.staysOut(400);
        assertLetsIn(lock::unlock, javaReleaseSeenMs(), waiter);
    }

    // ---- watchdogs

    @JavaToRest
    void javasWatchdogKeepsRestOut() throws Exception {
        String[] names = newLocks();
        RLock lock = java(world.java, names);
        lock.lock();
        Going<Long> waiter = restWaits(reversed(names));
        waiter.staysOut(3 * World.WATCHDOG_MS / 2);
        for (String name : names) {
            assertTrue(member(world.java, name).isHeldByCurrentThread(), name);
        }
        assertLetsIn(lock::unlock, javaReleaseSeenMs(), waiter);
    }

    @RestToJava
    void restsWatchdogKeepsJavaOut() throws Exception {
        String[] names = newLocks();
        Session session = new Session(world.front, SESSION_MS).keptAlive(300);
        Lease lease = lease(world.front, session, names);
        assertEquals(true, lease.acquire().expect(201).member("watchdog"));
        Going<Long> waiter = javaWaits(reversed(names));
        waiter.staysOut(3 * World.WATCHDOG_MS / 2);
        assertHeld(lease, names);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiter);
        session.end();
    }

    // ---- killed clients

    @JavaToRest
    void killedJvmFreesItsLocks() throws Exception {
        String name = newCommonName();
        Process client = KilledClient.java(this, world, name);
        Going<Long> waiter = restWaits(reversed(namesOf(name)));
        waiter.staysOut(World.WATCHDOG_MS + 500);
        assertLetsIn(() -> Processes.kill(client), World.WATCHDOG_MS + SOON_MS, waiter);
    }

    @RestToJava
    void killedRestClientFreesItsLocks() throws Exception {
        String name = newCommonName();
        Process client = KilledClient.rest(this, world, name);
        Going<Long> waiter = javaWaits(reversed(namesOf(name)));
        waiter.staysOut(SESSION_MS + 500);
        assertLetsIn(() -> Processes.kill(client), SESSION_MS + SOON_MS, waiter);
    }
}
