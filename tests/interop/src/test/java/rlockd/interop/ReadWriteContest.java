package rlockd.interop;

import java.util.OptionalLong;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RedissonClient;

/** Most want to read, which all may at once; who writes is alone. */
record ReadWriteContest(int readers) implements Contest {
    private static final int READS_OF_TEN = 7;

    @Override
    public String object() {
        return "RReadWriteLock";
    }

    @Override
    public int open(World world, String name) {
        return readers;
    }

    @Override
    public void close(World world, String name) {
    }

    private static boolean wantsToRead() {
        return ThreadLocalRandom.current().nextInt(10) < READS_OF_TEN;
    }

    private static LockContest read() {
        return new LockContest(new RReadLockTest());
    }

    private static LockContest write() {
        return new LockContest(new RWriteLockTest());
    }

    @Override
    public Turn java(RedissonClient client, String name) {
        return wantsToRead() ? read().java(client, name)
            : new Alone(write().java(client, name), readers);
    }

    @Override
    public Turn rest(Rest front, String name) {
        return wantsToRead() ? read().rest(front, name)
            : new Alone(write().rest(front, name), readers);
    }

    private record Alone(Turn turn, int places) implements Turn {
        @Override
        public void enter() throws Exception {
            turn.enter();
        }

        @Override
        public void leave() throws Exception {
            turn.leave();
        }

        @Override
        public OptionalLong token(String name) {
            return turn.token(name);
        }
    }
}
