package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.OptionalLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** How clients of either side get at a lock, and wait for it. */
abstract class LockTools extends Interop implements KilledClient.Holding {
    /** The lock for Java clients; one that excludes what rest() takes. */
    abstract RLock java(RedissonClient client, String name);

    /** `kind` of the acquire request. */
    String kind() {
        return "lock";
    }

    /** What waits for it: the same, unless those share. */
    RLock javaRival(RedissonClient client, String name) {
        return java(client, name);
    }

    String rivalKind() {
        return kind();
    }

    final RestLock rest(Rest front, String name) {
        return new RestLock(front, name, kind());
    }

    final RestLock restRival(Rest front, String name) {
        return new RestLock(front, name, rivalKind());
    }

    /** What a look says of a lock that Java holds and nobody waits for. */
    String kindOfJavas() {
        return kind();
    }

    /** What unlock() does when the lock was lost. */
    void unlockLost(RLock lost) {
        assertThrows(IllegalMonitorStateException.class, lost::unlock);
    }

    @Override
    public void hold(RedissonClient client, String name) {
        java(client, name).lock();
    }

    @Override
    public void hold(Rest front, Session session, String name) {
        rest(front, name).lease(session).acquire().expect(201);
    }

    /** By then REST waiters notice that a Java client let go. */
    long javaReleaseSeenMs() {
        return AT_ONCE_MS;
    }

    /** For how long Java clients take it in a race. */
    long javasLeaseInRacesMs() {
        return LEASE_MS;
    }

    /** The fencing token of the lock that this thread holds. */
    OptionalLong javaToken(RLock held) {
        return OptionalLong.empty();
    }

    final RLock java(String name) {
        return java(world.java, name);
    }

    final RestLock rest(String name) {
        return rest(world.front, name);
    }

    /** A Java client that waits, gets in, and goes again; when it got in. */
    final Going<Long> javaWaits(String name) {
        Going<Long> waits = go(() -> {
            RLock lock = javaRival(world.otherJava, name);
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            long inMs = now();
            lock.unlock();
            return inMs;
        });
        awaitJava(name, waits);
        return waits;
    }

    /** Returns when a Java client waits for it, or waits no more. */
    void awaitJava(String name, Going<?> waits) {
        awaitListenerOfAny(List.of(name), waits);
    }

    /** The same of a REST client, at the other front end. */
    final Going<Long> restWaits(String name) {
        RestLock lock = restRival(world.otherFront, name);
        Going<Long> waits = go(() -> {
            Lease lease = lock.lease();
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
            long inMs = now();
            lease.release().expect(200);
            return inMs;
        });
        lock.awaitWaiters(1, waits);
        return waits;
    }

    final String holderOfThisThread() {
        return world.java.getId() + ":" + Thread.currentThread().getId();
    }
}
