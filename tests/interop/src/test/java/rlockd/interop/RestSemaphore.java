package rlockd.interop;

import java.util.concurrent.CompletableFuture;

/** A semaphore as REST clients see it. */
final class RestSemaphore extends RestObject {
    RestSemaphore(Rest front, String name) {
        super(front, "semaphores", name);
    }

    Rest.Answer put(long permits) {
        return front.send("PUT", path + "?permits=" + permits);
    }

    /** `fields`: names and values in turn. */
    Rest.Answer acquire(Object... fields) {
        return front.send("POST", path + "/acquire" + Rest.query("", fields));
    }

    /** Goes on by itself; cancel(true) hangs up. */
    CompletableFuture<Rest.Answer> acquiring(Object... fields) {
        return front.begin("POST", path + "/acquire" + Rest.query("", fields));
    }

    Rest.Answer release(long permits) {
        return front.send("POST", path + "/release?permits=" + permits).expect(200);
    }

    Rest.Answer drain() {
        return front.send("POST", path + "/drain").expect(200);
    }

    Rest.Answer delete() {
        return front.send("DELETE", path).expect(200);
    }

    long available() {
        return look().number("available");
    }
}
