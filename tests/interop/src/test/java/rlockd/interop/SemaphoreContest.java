package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** A semaphore lets in as many as it has permits. */
record SemaphoreContest() implements Contest {
    private static final int PERMITS = 2;

    @Override
    public String object() {
        return "RSemaphore";
    }

    @Override
    public int open(World world, String name) {
        new RestSemaphore(world.front, name).put(PERMITS).expect(201);
        return PERMITS;
    }

    @Override
    public void close(World world, String name) {
        RestSemaphore semaphore = new RestSemaphore(world.front, name);
        assertEquals(PERMITS, semaphore.available());
        assertEquals(PERMITS, world.java.getSemaphore(name).availablePermits());
        assertEquals(true, semaphore.delete().member("deleted"));
    }

    @Override
    public Turn java(RedissonClient client, String name) {
        RSemaphore semaphore = client.getSemaphore(name);
        return new Turn() {
            @Override
            public void enter() throws Exception {
                assertTrue(semaphore.tryAcquire(Interop.WAIT_MS, MILLISECONDS), "in vain");
            }

            @Override
            public void leave() {
                semaphore.release();
            }
        };
    }

    @Override
    public Turn rest(Rest front, String name) {
        RestSemaphore semaphore = new RestSemaphore(front, name);
        return new Turn() {
            @Override
            public void enter() {
                semaphore.acquire("wait_ms", Interop.WAIT_MS).expect(200);
            }

            @Override
            public void leave() {
                semaphore.release(1);
            }
        };
    }
}
