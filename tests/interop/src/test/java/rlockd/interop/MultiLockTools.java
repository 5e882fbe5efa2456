package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Several locks of one kind, for clients of either side: at once, or one of them. */
abstract class MultiLockTools extends HandOverScenarios {
    /** What waits for them: the same, unless those share. */
    RLock rivalMember(RedissonClient client, String name) {
        return member(client, name);
    }

    @Override
    final String newCommonName() {
        return inOneSlot(newName());
    }

    @Override
    final String[] namesOf(String commonName) {
        return new String[] {commonName + "/a", commonName + "/b"};
    }

    /** Java's MultiLock says what it lost, of the locks that do. */
    @Override
    void unlockLost(RLock lost) {
        assertThrows(RuntimeException.class, lost::unlock);
    }

    /** Names of locks that no other test has, in their order. */
    final String[] newNames(int count) {
        return newNames(count, "");
    }

    final String[] newNames(int count, String suffix) {
        String common = newCommonName();
        String[] names = new String[count];
        Arrays.setAll(names, i -> common + "/" + (10 + i) + suffix);
        return names;
    }

    @Override
    final RLock java(RedissonClient client, String... names) {
        return client.getMultiLock(Arrays.stream(names)
            .map(name -> member(client, name)).toArray(RLock[]::new));
    }

    @Override
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

    @Override
    final Lease lease(Rest front, Session session, String... names) {
        return new RestMultiLock(front, kind(), names).lease(session);
    }

    @Override
    final void assertHeld(Lease lease, String... names) {
        super.assertHeld(lease, names);
        assertEquals("held", lease.look().expect(200).string("state"));
    }

    final RestLock oneRival(String name) {
        return new RestLock(world.otherFront, name, rivalKind());
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

    @Override
    final Going<Long> javaWaits(String... names) {
        Going<Long> waits = javaWaits(javaRival(world.otherJava, names));
        awaitJava(waits, names);
        return waits;
    }

    /** The same of a Java client that wants one of them. */
    final Going<Long> javaWaitsForOne(String name) {
        Going<Long> waits = javaWaits(rivalMember(world.otherJava, name));
        awaitJava(waits, name);
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

    @Override
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
