package rlockd.interop;

import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RedissonClient;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** How permits of either sort of semaphore pass from one side to the other. A class per sort. */
abstract class SemaphoreScenarios extends Interop {
    /** A semaphore of this sort. */
    abstract Contest contest();

    /** The same semaphore for REST clients. */
    abstract RestObject rest(String name);

    /** What REST says of a semaphore while `holders` have all its permits. */
    abstract void assertTaken(String name, List<Contest.Turn> holders);

    /** The turn of a new client. */
    private interface Client {
        Contest.Turn turn();
    }

    private interface Waiting {
        void await(Going<?> waiter);
    }

    private void passesOn(String name, Client from, Client to, Waiting waiting, long soonMs)
        throws Exception {
        int permits = contest().open(world, name);
        List<Contest.Turn> holders = new ArrayList<>();
        for (int i = 0; i < permits; i++) {
            holders.add(from.turn());
            holders.get(i).enter();
        }
        assertTaken(name, holders);
        Contest.Turn turn = to.turn();
        Going<Long> waiter = go(() -> {
            turn.enter();
            long inMs = now();
            turn.leave();
            return inMs;
        });
        waiting.await(waiter);
        waiter.staysOut(300);
        assertLetsIn(() -> holders.remove(0).leave(), soonMs, waiter);
        for (Contest.Turn holder : holders) {
            holder.leave();
        }
        contest().close(world, name);
    }

    /** `prefix`: what both clients put before the name. */
    private void javaToRest(RedissonClient java, Rest rest, String prefix, String name)
        throws Exception {
        passesOn(prefix + name, () -> contest().java(java, name),
            () -> contest().rest(rest, name),
            waiter -> rest(prefix + name).awaitWaiters(1, waiter), AT_ONCE_MS);
    }

    private void restToJava(Rest rest, RedissonClient java, String prefix, String name)
        throws Exception {
        passesOn(prefix + name, () -> contest().rest(rest, name),
            () -> contest().java(java, name),
            waiter -> awaitListenerOfAny(List.of(prefix + name), waiter), SOON_MS);
    }

    @JavaToRest
    void restGetsInWhenJavaReleases() throws Exception {
        javaToRest(world.java, world.otherFront, "", newName());
    }

    @RestToJava
    void javaGetsInWhenRestReleases() throws Exception {
        restToJava(world.front, world.otherJava, "", newName());
    }

    // ---- names

    private void handsOverBothWays(RedissonClient java, Rest rest, String prefix, String name)
        throws Exception {
        javaToRest(java, rest, prefix, name);
        restToJava(rest, java, prefix, name);
    }

    @BothWays
    void namesWithBracesAndInUtf8() throws Exception {
        List<String> names = new ArrayList<>(namesWithUnmatchedBraces());
        names.add(newName(":{42}:x"));
        names.add(newName(" Straße/日本 %2F+?#&{🔒}"));
        for (String name : names) {
            handsOverBothWays(world.java, world.front, "", name);
        }
    }

    @BothWays
    void nameMapperIsOurKeyPrefix() throws Exception {
        handsOverBothWays(world.prefixedJava, world.prefixedFront, World.PREFIX, newName());
    }
}
