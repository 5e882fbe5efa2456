package rlockd.interop;

import java.util.Arrays;
import java.util.stream.Collectors;

/** Several locks as one REST client acquires them: all at once, with one lease. */
final class RestMultiLock {
    private static final String PATH = "/v1/multi-locks";

    private final Rest front;
    private final String always;

    RestMultiLock(Rest front, String kind, String... names) {
        this.front = front;
        this.always = "kind=" + kind + "&" + Arrays.stream(names)
            .map(name -> "locks=" + Rest.encode(name)).collect(Collectors.joining("&"));
    }

    Lease lease() {
        return lease(null);
    }

    Lease lease(Session session) {
        return new Lease(front, PATH, always, session);
    }

    /** Reentrant with the owner's others. */
    Lease lease(Session session, String owner) {
        return new Lease(front, PATH, always + "&owner=" + owner, session);
    }
}
