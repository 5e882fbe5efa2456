package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Locks let in one, and give tokens. */
record LockContest(LockScenarios locks) implements Contest {
    @Override
    public String object() {
        return locks.object();
    }

    @Override
    public int open(World world, String name) {
        return 1;
    }

    @Override
    public void close(World world, String name) {
    }

    @Override
    public long atOnceMs() {
        return locks.javaReleaseSeenMs();
    }

    @Override
    public Turn java(RedissonClient client, String name) {
        RLock lock = locks.java(client, name);
        return new Turn() {
            @Override
            public void enter() throws Exception {
                assertTrue(lock.tryLock(Interop.WAIT_MS, locks.javasLeaseInRacesMs(),
                    MILLISECONDS), "waited in vain");
            }

            @Override
            public OptionalLong token(String same) {
                return locks.javaToken(lock);
            }

            @Override
            public void leave() {
                lock.unlock();
            }
        };
    }

    @Override
    public Turn rest(Rest front, String name) {
        Lease lease = locks.rest(front, name).lease();
        return new Turn() {
            private Rest.Answer granted;

            @Override
            public void enter() {
                granted = lease.acquire("wait_ms", Interop.WAIT_MS,
                    "ttl_ms", Interop.LEASE_MS).expect(201);
            }

            @Override
            public OptionalLong token(String same) {
                return OptionalLong.of(granted.number("fencing_token"));
            }

            @Override
            public void leave() {
                lease.release().expect(200);
            }
        };
    }
}
