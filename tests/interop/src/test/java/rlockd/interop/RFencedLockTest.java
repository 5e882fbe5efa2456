package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.RestToJava;

final class RFencedLockTest extends LockScenarios {
    @Override
    RFencedLock java(RedissonClient client, String name) {
        return client.getFencedLock(name);
    }

    @Override
    OptionalLong javaToken(RLock held) {
        return OptionalLong.of(((RFencedLock) held).getToken());
    }

    /**
     * A busy lock gives nil, not -1 or our token; a free one that REST had last, a new token.
     * (The form without a wait time waits for ever, in Redisson up to 4.7.0.)
     */
    @RestToJava
    void tokensOfTryLock() throws Exception {
        String name = newName();
        RFencedLock lock = java(world.java, name);
        Lease lease = rest(name).lease();
        long rests = lease.acquire("ttl_ms", LEASE_MS).expect(201).number("fencing_token");
        assertNull(lock.tryLockAndGetToken(0, LEASE_MS, MILLISECONDS));
        assertNull(lock.tryLockAndGetToken(1000, LEASE_MS, MILLISECONDS));
        assertEquals(rests, lock.getToken());
        Going<Long> waiter = go(() -> {
            RFencedLock other = java(world.otherJava, name);
            Long token = other.tryLockAndGetToken(WAIT_MS, LEASE_MS, MILLISECONDS);
            other.unlock();
            return token;
        });
        awaitJava(waiter, name);
        waiter.staysOut(200);
        lease.release().expect(200);
        assertTrue(waiter.await(SOON_MS) > rests);
    }

    /** Java counts up when it re-enters; the token of the grant is the last one. */
    @BothWays
    void tokensOfReentry() {
        String name = newName();
        RFencedLock lock = java(world.java, name);
        long first = lock.lockAndGetToken();
        long second = lock.lockAndGetToken();
        assertTrue(second > first);
        assertEquals(second, rest(name).look().number("fencing_token"));
        world.front.get("/v1/locks/" + Rest.encode(name) + "/fencing-tokens/" + second)
            .expect(200);
        lock.unlock();
        lock.unlock();
        Lease lease = rest(name).lease();
        long rests = lease.acquire("ttl_ms", LEASE_MS).expect(201).number("fencing_token");
        assertTrue(rests > second);
        lease.release().expect(200);
    }
}
