package rlockd.interop;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class RWriteLockTest extends LockScenarios {
    @Override
    String object() {
        return "RReadWriteLock.writeLock";
    }

    @Override
    RLock java(RedissonClient client, String name) {
        return client.getReadWriteLock(name).writeLock();
    }

    @Override
    void unlockLost(RLock lost) {
        RReadLockTest.unlockLostReadOrWrite(lost);
    }

    /**
     * A Java writer's release wakes the Java clients that are parked at that instant. One that
     * is about to sleeps on, until the lease of which it was told is over.
     */
    @Override
    long javasLeaseInRacesMs() {
        return 3000;
    }

    @Override
    String kind() {
        return "write";
    }
}
