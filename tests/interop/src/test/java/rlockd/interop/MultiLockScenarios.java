package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RLock;
import rlockd.interop.Direction.BothWays;
import rlockd.interop.Direction.JavaToRest;
import rlockd.interop.Direction.RestToJava;

/** How locks that are taken together pass from one side to the other. A class per kind. */
abstract class MultiLockScenarios extends MultiLockTools {
    // ---- hand-over

    /** Whoever wants only one of them, too. */
    @JavaToRest
    void allThatWaitForOneGetInWhenJavaReleases() throws Exception {
        String[] abc = newNames(3);
        RLock lock = java(world.java, abc);
        lock.lock(LEASE_MS, MILLISECONDS);
        List<Going<Long>> waiters = new ArrayList<>();
        for (String name : abc) {
            waiters.add(restWaits(oneRival(name).lease(), name));
        }
        waiters.get(2).staysOut(300);
        assertLetsIn(() -> lock.unlock(), AT_ONCE_MS, waiters);
    }

    @RestToJava
    void allThatWaitForOneGetInWhenRestReleases() throws Exception {
        String[] abc = newNames(3);
        Lease lease = held(rest(abc).lease());
        List<Going<Long>> waiters = new ArrayList<>();
        for (String name : abc) {
            waiters.add(javaWaitsForOne(name));
        }
        waiters.get(2).staysOut(300);
        assertLetsIn(() -> lease.release().expect(200), SOON_MS, waiters);
    }

    // ---- refused, and what overlaps

    @JavaToRest
    void restIsToldWhatJavaHolds() {
        String[] abc = newNames(3);
        RLock lock = java(world.java, abc[0], abc[1]);
        lock.lock(LEASE_MS, MILLISECONDS);
        Rest.Answer refused = restRival(abc[2], abc[1]).lease()
            .acquire("ttl_ms", LEASE_MS).expect(423);
        assertEquals(abc[1], refused.string("lock"));
        assertTrue(refused.string("holder.redisson_holder").startsWith(
            world.java.getId() + ":" + Thread.currentThread().getId()));
        assertLeft(LEASE_MS, refused.number("remaining_ms"));
        assertFree(abc[2]);
        lock.unlock();
        assertFree(abc);
    }

    @RestToJava
    void javaIsRefusedWhatRestHolds() throws Exception {
        String[] abc = newNames(3);
        Lease lease = held(rest(abc[0], abc[1]).lease());
        RLock overlaps = javaRival(world.java, abc[2], abc[1]);
        assertFalse(overlaps.tryLock());
        assertFree(abc[2]);
        long start = now();
        assertFalse(overlaps.tryLock(500, LEASE_MS, MILLISECONDS));
        assertBetween(450, 500 + SOON_MS, now() - start);
        assertFree(abc[2]);
        assertTrue(member(world.java, abc[1]).isLocked());
        lease.release().expect(200);
        assertTrue(overlaps.tryLock());
        overlaps.unlock();
    }

    /** What it has in common with two others, which have nothing in common. */
    @BothWays
    void overlapsOnBothSides() throws Exception {
        String[] abcd = newNames(4);
        Holder java = new Holder(java(world.java, abcd[0], abcd[1]));
        Lease rest = held(rest(abcd[2], abcd[3]).lease());
        Going<Long> restWaits = restWaits(abcd[1], abcd[2]);
        restWaits.staysOut(200);
        java.letGo();
        restWaits.staysOut(300);
        assertLetsIn(() -> rest.release().expect(200), AT_ONCE_MS, restWaits);

        java = new Holder(java(world.java, abcd[0], abcd[1]));
        Lease again = held(rest(abcd[2], abcd[3]).lease());
        Going<Long> javaWaits = javaWaits(abcd[2], abcd[1]);
        javaWaits.staysOut(200);
        again.release().expect(200);
        javaWaits.staysOut(300);
        assertIn(javaWaits, java.letGo(), 0, SOON_MS);
    }

    // ---- one by one

    /** It waits for the one that is in the way, then for the other one, then for the first. */
    @JavaToRest
    void restsWaitMovesFromLockToLock() throws Exception {
        String[] ab = newNames(2);
        Holder first = new Holder(member(world.java, ab[0]));
        Holder second = new Holder(member(world.otherJava, ab[1]));
        Going<Long> waiter = restWaits(ab);
        first.letGo();
        waiter.staysOut(300);
        Holder third = new Holder(member(world.java, ab[0]));
        second.letGo();
        waiter.staysOut(300);
        Holder fourth = new Holder(member(world.otherJava, ab[1]));
        fourth.letGo();
        waiter.staysOut(300);
        assertIn(waiter, third.letGo(), 0, AT_ONCE_MS);
    }

    /** Java holds what it has while it waits for the next one. */
    @RestToJava
    void javasWaitMovesFromLockToLock() throws Exception {
        String[] abc = newNames(3);
        List<Lease> leases = new ArrayList<>();
        for (String name : abc) {
            leases.add(held(one(name).lease()));
        }
        Going<Long> waiter = javaWaits(abc);
        for (int i = 0; i < 3; i++) {
            waiter.staysOut(300);
            if (i > 0) {
                String taken = abc[i - 1];
                eventually("Java has taken " + taken, CONDITION_MS,
                    () -> holder(taken).startsWith(world.otherJava.getId()));
            }
            if (i < 2) {
                leases.get(i).release().expect(200);
            }
        }
        assertLetsIn(() -> leases.get(2).release().expect(200), SOON_MS, waiter);
    }

    private String holder(String name) {
        String holder = one(name).look().string("holders.0.redisson_holder");
        return holder == null ? "" : holder;
    }

    /** What it held in the meantime is free at once. */
    @JavaToRest
    void restGetsInWhenJavaGivesUpCollecting() throws Exception {
        String[] abc = newNames(3);
        Lease inTheWay = held(one(abc[1]).lease());
        RLock lock = javaRival(world.java, abc[0], abc[1]);
        long start = now();
        Going<Boolean> java = go(() -> lock.tryLock(2000, LEASE_MS, MILLISECONDS));
        eventually("Java holds the first one", CONDITION_MS,
            () -> java.ended() || isLocked(abc[0]));
        Going<Long> waiter = restWaits(abc[0], abc[2]);
        assertIn(waiter, start, 1990, 3900); // no poll, nor the end of Java's hold, after 4 s
        assertEquals(false, java.await(WAIT_MS));
        inTheWay.release().expect(200);
    }

    /** It never had any of them, so Java gets whatever is free. */
    @RestToJava
    void aRestClientThatGivesUpLeavesNothingBehind() throws Exception {
        String[] abc = newNames(3);
        Holder inTheWay = new Holder(java(world.java, abc[1]));
        Lease lease = restRival(abc).lease();
        Going<Rest.Answer> gaveUp = go(() ->
            lease.acquire("wait_ms", 2000 * PATIENCE, "ttl_ms", LEASE_MS));
        one(abc[2]).awaitWaiters(1, gaveUp);
        RLock free = javaRival(world.otherJava, abc[0], abc[2]);
        assertTrue(free.tryLock());
        free.unlock();
        assertEquals(abc[1], gaveUp.await(WAIT_MS).expect(423).string("lock"));
        one(abc[2]).awaitWaiters(0);
        Going<Long> waiter = javaWaits(abc);
        waiter.staysOut(300);
        assertIn(waiter, inTheWay.letGo(), 0, SOON_MS);
    }

    // ---- orders

    /** A REST client holds nothing while it waits, so nobody waits for what he holds up. */
    @BothWays
    void oppositeOrdersNeverDeadlock() throws Exception {
        String[] ab = newNames(2);
        RLock java = javaRival(world.java, ab);
        List<Going<Long>> slowest = new ArrayList<>();
        slowest.add(go(() -> slowestOf(() -> {
            assertTrue(java.tryLock(WAIT_MS, LEASE_MS, MILLISECONDS), "Java waited in vain");
            java.unlock();
        })));
        for (String[] order : List.of(ab, new String[] {ab[1], ab[0]})) {
            slowest.add(go(() -> slowestOf(() -> {
                Lease lease = restRival(order).lease();
                lease.acquire("wait_ms", WAIT_MS, "ttl_ms", LEASE_MS).expect(201);
                lease.release().expect(200);
            })));
        }
        for (Going<Long> one : slowest) {
            assertBetween(0, SOON_MS, one.await(WAIT_MS + 5000));
        }
    }

    private interface Step {
        void go() throws Exception;
    }

    private static long slowestOf(Step step) throws Exception {
        long slowest = 0;
        for (int i = 0; i < 30; i++) {
            long start = now();
            step.go();
            slowest = Math.max(slowest, now() - start);
            nap(ThreadLocalRandom.current().nextInt(10));
        }
        return slowest;
    }
}
