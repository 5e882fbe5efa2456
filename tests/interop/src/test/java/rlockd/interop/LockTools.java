package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** How clients of either side get at a lock, and wait for it. */
abstract class LockTools extends HandOverScenarios {
    /** The lock for Java clients; one that excludes what rest() takes. */
    abstract RLock java(RedissonClient client, String name);

    /** What waits for it: the same, unless those share. */
    RLock javaRival(RedissonClient client, String name) {
        return java(client, name);
    }

    @Override
    final String newCommonName() {
        return newName();
    }

    @Override
    final String[] namesOf(String commonName) {
        return new String[] {commonName};
    }

    @Override
    final RLock java(RedissonClient client, String... names) {
        return java(client, names[0]);
    }

    @Override
    final RLock javaRival(RedissonClient client, String... names) {
        return javaRival(client, names[0]);
    }

    @Override
    final RLock member(RedissonClient client, String name) {
        return java(client, name);
    }

    @Override
    final Lease lease(Rest front, Session session, String... names) {
        return rest(front, names[0]).lease(session);
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

    @Override
    void unlockLost(RLock lost) {
        assertThrows(IllegalMonitorStateException.class, lost::unlock);
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

    @Override
    final Going<Long> javaWaits(String... names) {
        Going<Long> waits = go(() -> {
            RLock lock = javaRival(world.otherJava, names);
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            long inMs = now();
            lock.unlock();
            return inMs;
        });
        awaitJava(waits, names);
        return waits;
    }

    @Override
    final Going<Long> restWaits(String... names) {
        RestLock lock = restRival(world.otherFront, names[0]);
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
