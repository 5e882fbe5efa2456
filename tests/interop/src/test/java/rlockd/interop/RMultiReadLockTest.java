package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;

/** Somebody reads, and somebody else wants to write. */
final class RMultiReadLockTest extends MultiLockLosses {
    @Override
    String object() {
        return "RedissonMultiLock of readLock";
    }

    @Override
    RLock member(RedissonClient client, String name) {
        return client.getReadWriteLock(name).readLock();
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
    RLock rivalMember(RedissonClient client, String name) {
        return client.getReadWriteLock(name).writeLock();
    }

    @Override
    String rivalKind() {
        return "write";
    }

    @BothWays
    void readersOfBothSidesShare() throws Exception {
        String[] abc = newNames(3);
        RLock java = java(world.java, abc[0], abc[1]);
        java.lock(LEASE_MS, MILLISECONDS);
        Lease rest = held(rest(abc[2], abc[1]).lease());
        Holder other = new Holder(java(world.otherJava, abc[2], abc[1]));
        assertEquals("read", one(abc[1]).look().string("holders.2.kind"));
        Going<Long> writes = restWaits(abc);
        java.unlock();
        writes.staysOut(200);
        rest.release().expect(200);
        writes.staysOut(200);
        assertIn(writes, other.letGo(), 0, AT_ONCE_MS);
    }

    @Override
    void unlockLost(RLock lost) {
        RMultiWriteLockTest.unlockLostReadsOrWrites(lost);
    }
}
