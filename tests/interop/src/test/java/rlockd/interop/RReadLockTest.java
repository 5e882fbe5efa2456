package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertThrows;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Somebody reads, and somebody else wants to write. */
final class RReadLockTest extends LockScenarios {
    @Override
    String object() {
        return "RReadWriteLock.readLock";
    }

    @Override
    RLock java(RedissonClient client, String name) {
        return client.getReadWriteLock(name).readLock();
    }

    @Override
    void unlockLost(RLock lost) {
        unlockLostReadOrWrite(lost);
    }

    /** Before 3.44 nobody complains when nobody holds. */
    static void unlockLostReadOrWrite(RLock lost) {
        if (World.isBefore(3, 44)) {
            lost.unlock();
        } else {
            assertThrows(IllegalMonitorStateException.class, lost::unlock);
        }
    }

    @Override
    String kind() {
        return "read";
    }

    /** Its forceUnlock() lets the keys of the single reads run out. */
    @Override
    boolean isLeftByJava(String test, String key) {
        return test.startsWith("javasForceUnlock") && key.contains(":rwlock_timeout:");
    }

    @Override
    RLock javaRival(RedissonClient client, String name) {
        return client.getReadWriteLock(name).writeLock();
    }

    @Override
    String rivalKind() {
        return "write";
    }
}
