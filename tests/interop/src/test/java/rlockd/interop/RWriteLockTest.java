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

    @Override
    String kind() {
        return "write";
    }
}
