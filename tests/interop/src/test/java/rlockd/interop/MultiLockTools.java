package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Several locks of one kind, for clients of either side: at once, or one of them. */
abstract class MultiLockTools extends Interop {
    /** One of them for Java clients; it excludes what rest() takes. */
    abstract RLock member(RedissonClient client, String name);

    /** `kind` of the acquire request. */
    String kind() {
        return "lock";
    }

    /** What waits for them: the same, unless those share. */
    RLock rivalMember(RedissonClient client, String name) {
        return member(client, name);
    }

    String rivalKind() {
        return kind();
    }

    /** What goes with a name that Java clients wait for. */
    String channel(String name) {
        return companion("redisson_lock__channel", name);
    }

    /** Names of locks that no other test has, in their order. */
    final String[] newNames(int count) {
        return newNames(count, "");
    }

    final String[] newNames(int count, String suffix) {
        String common = inOneSlot(newName());
        String[] names = new String[count];
        Arrays.setAll(names, i -> common + "/" + (10 + i) + suffix);
        return names;
    }

    final RLock java(RedissonClient client, String... names) {
        return client.getMultiLock(Arrays.stream(names)
            .map(name -> member(client, name)).toArray(RLock[]::new));
    }

    final RLock javaRival(RedissonClient client, String... names) {
        return client.getMultiLock(Arrays.stream(names)
            .map(name -> rivalMember(client, name)).toArray(RLock[]::new));
    }

    final RestMultiLock rest(String... names) {
        return new RestMultiLock(world.front, kind(), names);
    }

    final RestMultiLock restRival(String... names) {
        return new RestMultiLock(world.otherFront, rivalKind(), names);
    }

    /** One of them, by itself. */
    final RestLock one(String name) {
        return new RestLock(world.front, name, kind());
    }

    final RestLock oneRival(String name) {
        return new RestLock(world.otherFront, name, rivalKind());
    }

    final Lease held(Lease lease) {
        lease.acquire("ttl_ms", LEASE_MS).expect(201);
        return lease;
    }

    final boolean isLocked(String name) {
        return (Boolean) one(name).look().member("locked");
    }

    final void assertFree(String... names) {
        for (String name : names) {
            assertEquals(false, isLocked(name), name);
        }
    }

    /** A Java client that waits, gets in, and goes again; when it got in. */
    final Going<Long> javaWaits(RLock lock) {
        return go(() -> {
            assertTrue(lock.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            long inMs = now();
            lock.unlock();
            return inMs;
        });
    }

    /** The same of a Java client that wants several; it waits when this returns. */
    final Going<Long> javaWaits(String... names) {
        Going<Long> waits = javaWaits(javaRival(world.otherJava, names));
        awaitListenerOfAny(List.of(names), waits);
        return waits;
    }

    /** The same of a Java client that wants one of them. */
    final Going<Long> javaWaitsForOne(String name) {
        Going<Long> waits = javaWaits(rivalMember(world.otherJava, name));
        awaitListenerOfAny(List.of(name), waits);
        return waits;
    }

    /** The same of a REST client; it waits when this returns. */
    final Going<Long> restWaits(Lease lease, String name) {
        Going<Long> waits = go(() -> {
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
            long inMs = now();
            lease.release().expect(200);
            return inMs;
        });
        one(name).awaitWaiters(1, waits);
        return waits;
    }

    final Going<Long> restWaits(String... names) {
        return restWaits(restRival(names).lease(), names[0]);
    }

    /** A Java client that holds until it is told to let go. */
    static final class Holder {
        private final CountDownLatch enough = new CountDownLatch(1);
        private final Going<Object> going;

        Holder(RLock lock) throws InterruptedException {
            CountDownLatch holds = new CountDownLatch(1);
            going = go(() -> {
                lock.lock(LEASE_MS, MILLISECONDS);
                holds.countDown();
                enough.await();
                lock.unlock();
                return null;
            });
            assertTrue(holds.await(WAIT_MS, MILLISECONDS), "does not get it");
        }

        /** When that was. */
        long letGo() throws InterruptedException {
            long start = now();
            enough.countDown();
            going.await(WAIT_MS);
            return start;
        }
    }
}
