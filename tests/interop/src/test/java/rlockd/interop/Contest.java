package rlockd.interop;

import java.util.List;
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

    /** A turn is in as many of them at once, one or more. */
    default int mostAtOnce() {
        return 1;
    }

    default Turn java(RedissonClient client, List<String> names) {
        return java(client, names.get(0));
    }

    default Turn rest(Rest front, List<String> names) {
        return rest(front, names.get(0));
    }

    /** A waiter is in by then. */
    default long atOnceMs() {
        return Interop.AT_ONCE_MS;
    }

    /** Once in and out again. */
    interface Turn {
        /** Within WAIT_MS, for LEASE_MS. */
        void enter() throws Exception;

        void leave() throws Exception;

        /** The fencing token of who is in, if there is one. */
        default OptionalLong token(String name) {
            return OptionalLong.empty();
        }

        /** Of the places that there are: a writer takes them all. */
        default int places() {
            return 1;
        }
    }
}
