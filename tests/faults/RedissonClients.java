import java.util.Arrays;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * RedissonClients PORT THREADS SEED PERMITS LOCK...: threads that take and release these locks,
 * and permits of this semaphore, with Redisson's client on the Redis at that port, until standard
 * input ends. Prints "ready", and then each call with the fields of a line of the history.
 */
final class RedissonClients extends Thread {
    private static final int ANSWER_MS = 8000;
    private static final int TRIES = 3;
    private static final int[] LEASES_MS = {900, 1500, 2500, 4000};
    private static final int[] WAITS_MS = {0, 0, 300, 700};
    /** Redisson's name for a thread: a new one for each lease, so that no lease is reentrant. */
    private static final AtomicLong HOLDERS = new AtomicLong(1000);
    private static volatile boolean stopped;

    private final RedissonClient client;
    private final Random random;
    private final String permits;
    private final String[] locks;

    private RedissonClients(RedissonClient client, int number, String[] args) {
        super("redisson-" + number);
        this.client = client;
        random = new Random(Long.parseLong(args[2]) * 1000 + number);
        permits = args[3];
        locks = Arrays.copyOfRange(args, 4, args.length);
    }

    /** What both kinds of leases have in common; a result of null or false: not granted. */
    private interface Lease {
        Future<?> take(int waitMs, int leaseMs);

        /** A result of false: the lease holds no more. */
        Future<?> look();

        Future<?> giveBack();
    }

    private static final class LockLease implements Lease {
        private final RLock lock;
        private final long holder = HOLDERS.incrementAndGet();

        LockLease(RLock lock) {
            this.lock = lock;
        }

        @Override
        public Future<?> take(int waitMs, int leaseMs) {
            return lock.tryLockAsync(waitMs, leaseMs, TimeUnit.MILLISECONDS, holder);
        }

        @Override
        public Future<?> look() {
            return lock.isHeldByThreadAsync(holder);
        }

        @Override
        public Future<?> giveBack() {
            return lock.unlockAsync(holder);
        }
    }

    private static final class PermitLease implements Lease {
        private final RPermitExpirableSemaphore semaphore;
        private RFuture<String> permit;

        PermitLease(RPermitExpirableSemaphore semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public Future<?> take(int waitMs, int leaseMs) {
            permit = semaphore.tryAcquireAsync(waitMs, leaseMs, TimeUnit.MILLISECONDS);
            return permit;
        }

        @Override
        public Future<?> look() {
            return semaphore.getLeaseTimeAsync(permit.toCompletableFuture().join());
        }

        @Override
        public Future<?> giveBack() {
            return semaphore.releaseAsync(permit.toCompletableFuture().join());
        }
    }

    /** `refused`: the outcome for a result of null or false. */
    private static String outcomeOf(Future<?> answer, String refused) throws InterruptedException {
        try {
            Object result = answer.get(ANSWER_MS, TimeUnit.MILLISECONDS);
            return result == null || result.equals(false) ? refused : "ok";
        } catch (TimeoutException e) {
            answer.cancel(true);
            return "unknown";
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            boolean isOver = cause instanceof IllegalMonitorStateException
                || cause instanceof IllegalArgumentException;
            return isOver ? "ended" : "unknown";
        }
    }

    private String write(String op, long began, String outcome, String fields) {
        String line = "{\"client\":\"" + getName() + "\",\"op\":\"" + op
            + "\",\"t_inv\":" + began + ",\"t_ret\":" + System.nanoTime() + ",\"outcome\":\""
            + outcome + "\"" + fields + "}";
        System.out.println(line);
        return outcome;
    }

    private void cycle() throws InterruptedException {
        boolean isPermit = random.nextInt(4) == 0;
        String name = isPermit ? permits : locks[random.nextInt(locks.length)];
        Lease lease = isPermit ? new PermitLease(client.getPermitExpirableSemaphore(name))
            : new LockLease(client.getLock(name));
        int leaseMs = LEASES_MS[random.nextInt(LEASES_MS.length)];
        int waitMs = WAITS_MS[random.nextInt(WAITS_MS.length)];
        String fields = ",\"kind\":\"" + (isPermit ? "permit" : "lock") + "\",\"lock\":\"" + name
            + "\",\"lease\":\"" + UUID.randomUUID() + "\"";
        String times = ",\"ttl_ms\":" + leaseMs + ",\"wait_ms\":" + waitMs + ",\"remaining_ms\":"
            + leaseMs;
        long began = System.nanoTime();

        if (!write("acquire", began, outcomeOf(lease.take(waitMs, leaseMs), "not-done"),
                   fields + times).equals("ok")) {
            return;
        }
        // At times longer than the lease lasts.
        Thread.sleep(random.nextInt(random.nextInt(10) == 0 ? 2 * leaseMs : leaseMs / 3));
        began = System.nanoTime();
        String outcome = outcomeOf(lease.look(), "ended");
        if (outcome.equals("ended")) { // as a renewal would tell
            write("renew", began, outcome, fields);
        }
        outcome = "unknown";
        for (int i = 0; i < TRIES && outcome.equals("unknown"); i++) {
            began = System.nanoTime();
            outcome = write("release", began, outcomeOf(lease.giveBack(), "ok"), fields);
        }
    }

    @Override
    public void run() {
        try {
            while (!stopped) {
                cycle();
                Thread.sleep(random.nextInt(100));
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        // A command that Redisson repeats by itself might count a lease twice.
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]).setRetryAttempts(0)
            .setTimeout(2000).setConnectTimeout(3000).setPingConnectionInterval(1000)
            .setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
        RedissonClient client = Redisson.create(config);
        System.out.println("ready");
        RedissonClients[] threads = new RedissonClients[Integer.parseInt(args[1])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new RedissonClients(client, i, args);
            threads[i].start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        client.shutdown();
    }
}
