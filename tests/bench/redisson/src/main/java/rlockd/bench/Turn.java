package rlockd.bench;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** How one thread takes and gives back what the contest is about. */
interface Turn {
    /** In a mix one of so many turns writes, as with `load contend`. */
    int WRITE_EVERY = 5;
    /** Of a permit: longer than any run. */
    long LEASE_S = 600;

    void take() throws Exception;

    void give() throws Exception;

    static Turn of(RedissonClient client, String kind, String name, int index) throws Exception {
        switch (kind) {
            case "own":
                return locking(client.getLock(name + "-" + index));
            case "plain":
                return locking(client.getLock(name));
            case "fair":
                return locking(client.getFairLock(name));
            case "write":
                return locking(client.getReadWriteLock(name).writeLock());
            case "mix":
                return mixed(client.getReadWriteLock(name), index);
            case "permit":
                RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
                semaphore.trySetPermits(1);
                return permit(semaphore);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static Turn locking(RLock lock) {
        return new Turn() {
            @Override
            public void take() throws InterruptedException {
                lock.lockInterruptibly();
            }

            @Override
            public void give() {
                lock.unlock();
            }
        };
    }

    private static Turn mixed(RReadWriteLock lock, int index) {
        return new Turn() {
            private int turns = index;
            private RLock held;

            @Override
            public void take() throws InterruptedException {
                held = turns++ % WRITE_EVERY == 0 ? lock.writeLock() : lock.readLock();
                held.lockInterruptibly();
            }

            @Override
            public void give() {
                held.unlock();
            }
        };
    }

    private static Turn permit(RPermitExpirableSemaphore semaphore) {
        return new Turn() {
            private String id;

            @Override
            public void take() throws InterruptedException {
                id = semaphore.acquire(LEASE_S, TimeUnit.SECONDS);
            }

            @Override
            public void give() {
                semaphore.release(id);
            }
        };
    }
}
