package rlockd.interop;

import java.util.OptionalLong;
import org.redisson.api.RedissonClient;

/** What clients of both sides race for: something that lets so many in at a time. */
interface Contest {
    /** As the matrix calls it. */
    String object();

    /** Before the race; how many it lets in. */
    int open(World world, String name);

    /** After the race; nothing may be left of it. */
    void close(World world, String name);

    Turn java(RedissonClient client, String name);

    Turn rest(Rest front, String name);

    /** A waiter is in by then, 99 times out of a hundred. */
    default long atOnceMs() {
        return Interop.AT_ONCE_MS;
    }

    /** Once in and out again. */
    interface Turn {
        /** Within WAIT_MS, for LEASE_MS; the fencing token, if there is one. */
        OptionalLong enter() throws Exception;

        void leave() throws Exception;

        /** Of the places that there are: a writer takes them all. */
        default int places() {
            return 1;
        }
    }
}
