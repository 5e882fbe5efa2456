package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** How clients of either side get at permits, and wait for them. */
abstract class PermitTools extends SemaphoreScenarios implements KilledClient.Holding {
    static final long KILLED_LEASE_MS = 5000 * PATIENCE;

    final RPermitExpirableSemaphore java(String name) {
        return world.java.getPermitExpirableSemaphore(name);
    }

    @Override
    final RestPermits rest(String name) {
        return new RestPermits(world.front, name);
    }

    /** Whether it knows several permits at once, and what is left of one. */
    static boolean javaKnowsSeveral() {
        return !World.isBefore(3, 24);
    }

    /** Calls a method of those, which older versions cannot compile. */
    @SuppressWarnings("unchecked")
    static <T> T call(RPermitExpirableSemaphore semaphore, String name, Object... arguments)
        throws ReflectiveOperationException {
        Method method = Arrays.stream(RPermitExpirableSemaphore.class.getMethods())
            .filter(each -> each.getName().equals(name)
                && takes(each.getParameterTypes(), arguments))
            .findFirst().orElseThrow();
        return (T) method.invoke(semaphore, arguments);
    }

    private static boolean takes(Class<?>[] types, Object[] arguments) {
        return types.length == arguments.length && IntStream.range(0, types.length)
            .allMatch(i -> types[i].isPrimitive() || types[i].isInstance(arguments[i]));
    }

    @Override
    public void hold(RedissonClient client, String name) throws Exception {
        client.getPermitExpirableSemaphore(name).acquire(KILLED_LEASE_MS, MILLISECONDS);
    }

    @Override
    public void hold(Rest front, Session session, String name) {
        new RestPermits(front, name).lease(session).acquire().expect(201);
    }

    /** A Java client that waits, gets in, and goes again; when it got in. */
    final Going<Long> javaWaits(String name) {
        RPermitExpirableSemaphore semaphore = world.otherJava.getPermitExpirableSemaphore(name);
        Going<Long> waits = go(() -> {
            String id = semaphore.tryAcquire(WAIT_MS, LEASE_MS, MILLISECONDS);
            assertNotNull(id, "Java waited in vain");
            long inMs = now();
            semaphore.release(id);
            return inMs;
        });
        awaitListener(companion("redisson_sc", name), waits);
        return waits;
    }

    /** The same of a REST client, at the other front end. */
    final Going<Long> restWaits(String name) {
        RestPermits semaphore = new RestPermits(world.otherFront, name);
        long others = semaphore.look().number("waiter_count");
        Going<Long> waits = go(() -> {
            Lease lease = semaphore.lease();
            lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
            long inMs = now();
            lease.release().expect(200);
            return inMs;
        });
        semaphore.awaitWaiters(others + 1, waits);
        return waits;
    }

    /** A permit's id, as Java knows it. */
    static String idOf(Rest.Answer held) {
        return held.string("lease_id").replace("-", "");
    }

    /** Both sides see that all are free; then it goes. */
    final void ends(String name, int permits) {
        assertEquals(permits, rest(name).look().number("available"));
        assertEquals(permits, java(name).availablePermits());
        assertEquals(0, rest(name).look().number("holder_count"));
        assertEquals(true, rest(name).delete().member("deleted"));
    }
}
