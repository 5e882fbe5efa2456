package rlockd.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** What a REST client has one token for: a hold of a lock, a permit of a semaphore. */
final class Lease {
    private final Rest front;
    private final String path;
    private final String always;
    private final Session session;
    private final String token = UUID.randomUUID().toString();

    /** `always`: the fields of each acquire request; `session` may be null. */
    Lease(Rest front, String path, String always, Session session) {
        this.front = front;
        this.path = path;
        this.always = always;
        this.session = session;
    }

    /** `fields`: names and values in turn. */
    Rest.Answer acquire(Object... fields) {
        return front.send("PUT", path + Rest.query(always, fields), headers());
    }

    /** Goes on by itself; cancel(true) hangs up. */
    CompletableFuture<Rest.Answer> acquiring(Object... fields) {
        return front.begin("PUT", path + Rest.query(always, fields), headers());
    }

    Rest.Answer renew(long ttlMs) {
        return front.send("PATCH", path + "?ttl_ms=" + ttlMs, headers());
    }

    Rest.Answer look() {
        return front.send("GET", path, headers());
    }

    Rest.Answer release() {
        return front.send("DELETE", path, headers());
    }

    private String[] headers() {
        List<String> headers = new ArrayList<>(List.of("Lease-Token", token));
        if (session != null) {
            headers.addAll(List.of("Session-Token", session.token));
        }
        return headers.toArray(String[]::new);
    }
}
