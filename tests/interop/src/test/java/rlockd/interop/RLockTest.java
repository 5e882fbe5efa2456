package rlockd.interop;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class RLockTest extends LockScenarios {
    @Override
    RLock java(RedissonClient client, String name) {
        return client.getLock(name);
    }
}
