package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertThrows;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class RMultiWriteLockTest extends MultiLockLosses {
    @Override
    String object() {
        return "RedissonMultiLock of writeLock";
    }

    @Override
    RLock member(RedissonClient client, String name) {
        return client.getReadWriteLock(name).writeLock();
    }

    @Override
    String kind() {
        return "write";
    }

    @Override
    void unlockLost(RLock lost) {
        unlockLostReadsOrWrites(lost);
    }

    /** Before 3.44 nobody complains when nobody holds. */
    static void unlockLostReadsOrWrites(RLock lost) {
        if (World.isBefore(3, 44)) {
            lost.unlock();
        } else {
            assertThrows(RuntimeException.class, lost::unlock);
        }
    }
}
