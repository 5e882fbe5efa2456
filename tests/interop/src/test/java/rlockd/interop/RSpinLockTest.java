package rlockd.interop;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class RSpinLockTest extends LockScenarios {
    @Override
    RLock java(RedissonClient client, String name) {
        return client.getSpinLock(name);
    }

    /** A spin lock tells nobody that it is free: our waiters poll, every 4 to 6 s. */
    @Override
    long javaReleaseSeenMs() {
        return POLL_MS + SOON_MS;
    }

    /** It listens to nothing, and tries again within 128 ms. */
    @Override
    void awaitJava(Going<?> waits, String... names) {
    }
}
