package rlockd.interop;

/** A count-down latch as REST clients see it. */
final class RestLatch extends RestObject {
    RestLatch(Rest front, String name) {
        super(front, "latches", name);
    }

    Rest.Answer put(long count) {
        return front.send("PUT", path + "?count=" + count);
    }

    /** Answered at zero, or when the wait is over. */
    Rest.Answer await(long waitMs) {
        return front.get(path + "?wait_ms=" + waitMs).expect(200);
    }

    Rest.Answer countDown() {
        return front.send("POST", path + "/count-down").expect(200);
    }

    Rest.Answer delete() {
        return front.send("DELETE", path).expect(200);
    }

    long count() {
        return look().number("count");
    }
}
