import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * JavaHolder PORT LOCK: holds the lock with Redisson's client, whose watchdog renews it, on the
 * Redis at that port. Prints "held", and unlocks when standard input ends.
 */
final class JavaHolder {
    private JavaHolder() {
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0])
            .setConnectionMinimumIdleSize(1).setConnectionPoolSize(2);
        RedissonClient client = Redisson.create(config);
        RLock lock = client.getLock(args[1]);
        lock.lock();
        System.out.println("held");
        while (System.in.read() >= 0) {
            continue;
        }
        lock.unlock();
        client.shutdown();
    }
}
