package rlockd.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Some want one of the locks, some several, of one of these kinds, each in his own order. */
record MultiLockContest(String object, int room, List<MultiLockTools> kinds)
    implements Contest {
    /** Java clients wait for each other for so long at most, each with what the other wants. */
    private static final int MOST_PATIENCE_MS = 20;

    static Contest ofLocks() {
        RMultiLockTest plain = new RMultiLockTest();
        return new MultiLockContest(plain.object(), 1, List.of(plain, new MultiLockTools() {
            @Override
            RLock member(RedissonClient client, String name) {
                return client.getFencedLock(name);
            }
        }));
    }

    static Contest ofReadWriteLocks(int readers) {
        RMultiReadLockTest reads = new RMultiReadLockTest();
        return new MultiLockContest(reads.object() + " and writeLock", readers,
            List.of(reads, reads, new RMultiWriteLockTest()));
    }

    @Override
    public int open(World world, String name) {
        return room;
    }

    @Override
    public void close(World world, String name) {
    }

    @Override
    public int mostAtOnce() {
        return 3;
    }

    /**
     * Others have each of them in turn, or hold some in vain, while one waits for several: so
     * here only a wait that never ends shows that a wake-up was lost.
     */
    @Override
    public long atOnceMs() {
        return Interop.WAIT_MS;
    }

    private MultiLockTools anyKind() {
        return kinds.get(ThreadLocalRandom.current().nextInt(kinds.size()));
    }

    private int placesOf(MultiLockTools kind) {
        return kind.kind().equals("read") ? 1 : room;
    }

    @Override
    public Turn java(RedissonClient client, String name) {
        return java(client, List.of(name));
    }

    @Override
    public Turn java(RedissonClient client, List<String> names) {
        MultiLockTools kind = anyKind();
        List<RLock> members = names.stream().map(name -> kind.member(client, name)).toList();
        RLock lock = members.size() == 1 ? members.get(0)
            : client.getMultiLock(members.toArray(RLock[]::new));
        return new Turn() {
            @Override
            public void enter() throws Exception {
                long giveUp = Interop.now() + Interop.WAIT_MS;
                while (!lock.tryLock(patienceMs(), MILLISECONDS)) {
                    assertTrue(Interop.now() < giveUp, "waited in vain");
                }
            }

            @Override
            public void leave() {
                lock.unlock();
            }

            @Override
            public OptionalLong token(String name) {
                return members.get(names.indexOf(name)) instanceof RFencedLock fenced
                    ? OptionalLong.of(fenced.getToken()) : OptionalLong.empty();
            }

            @Override
            public int places() {
                return placesOf(kind);
            }
        };
    }

    private static long patienceMs() {
        return ThreadLocalRandom.current().nextInt(MOST_PATIENCE_MS / 4, MOST_PATIENCE_MS + 1);
    }

    @Override
    public Turn rest(Rest front, String name) {
        return rest(front, List.of(name));
    }

    @Override
    public Turn rest(Rest front, List<String> names) {
        MultiLockTools kind = anyKind();
        boolean alone = names.size() == 1;
        Lease lease = alone ? new RestLock(front, names.get(0), kind.kind()).lease()
            : new RestMultiLock(front, kind.kind(), names.toArray(String[]::new)).lease();
        return new Turn() {
            private Rest.Answer granted;

            @Override
            public void enter() {
                granted = lease.acquire("wait_ms", Interop.WAIT_MS,
                    "ttl_ms", Interop.LEASE_MS).expect(201);
            }

            @Override
            public void leave() {
                lease.release().expect(200);
            }

            @Override
            public OptionalLong token(String name) {
                return alone ? OptionalLong.of(granted.number("fencing_token"))
                    : IntStream.range(0, names.size()).mapToObj(i -> "locks." + i)
                        .filter(path -> granted.string(path + ".lock").equals(name))
                        .mapToLong(path -> granted.number(path + ".fencing_token")).findFirst();
            }

            @Override
            public int places() {
                return placesOf(kind);
            }
        };
    }
}
