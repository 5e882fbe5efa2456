package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** A semaphore whose permits are leases, or have an id. */
record PermitContest() implements Contest {
    private static final int PERMITS = 2;

    @Override
    public String object() {
        return "RPermitExpirableSemaphore";
    }

    @Override
    public int open(World world, String name) {
        new RestPermits(world.front, name).put(PERMITS).expect(201);
        return PERMITS;
    }

    @Override
    public void close(World world, String name) {
        RestPermits semaphore = new RestPermits(world.front, name);
        assertEquals(PERMITS, semaphore.look().number("available"));
        assertEquals(0, semaphore.look().number("holder_count"));
        assertEquals(PERMITS, world.java.getPermitExpirableSemaphore(name).availablePermits());
        assertEquals(true, semaphore.delete().member("deleted"));
    }

    @Override
    public Turn java(RedissonClient client, String name) {
        return new JavaTurn(client.getPermitExpirableSemaphore(name));
    }

    static final class JavaTurn implements Turn {
        private final RPermitExpirableSemaphore semaphore;
        private String id;

        private JavaTurn(RPermitExpirableSemaphore semaphore) {
            this.semaphore = semaphore;
        }

        /** Of the permit that it has. */
        String id() {
            return id;
        }

        @Override
        public void enter() throws Exception {
            id = semaphore.tryAcquire(Interop.WAIT_MS, Interop.LEASE_MS, MILLISECONDS);
            assertNotNull(id, "waited in vain");
        }

        @Override
        public void leave() {
            semaphore.release(id);
        }
    }

    @Override
    public Turn rest(Rest front, String name) {
        Lease lease = new RestPermits(front, name).lease();
        return new Turn() {
            @Override
            public void enter() {
                lease.acquire("wait_ms", Interop.WAIT_MS, "ttl_ms", Interop.LEASE_MS)
                    .expect(201);
            }

            @Override
            public void leave() {
                lease.release().expect(200);
            }
        };
    }
}
