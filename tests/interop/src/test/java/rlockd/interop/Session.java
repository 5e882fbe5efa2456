package rlockd.interop;

import java.util.UUID;

/** A REST client's life; somebody has to keep it alive. */
final class Session {
    final String token = UUID.randomUUID().toString();
    private final Rest front;
    private final String path;
    private volatile boolean ended;

    Session(Rest front, long ttlMs) {
        this.front = front;
        this.path = "/v1/sessions/" + front
            .send("POST", "/v1/sessions?ttl_ms=" + ttlMs, "Session-Token", token)
            .expect(201).string("session_id");
    }

    Rest.Answer keepAlive() {
        return front.send("POST", path + "/keep-alive", "Session-Token", token);
    }

    /** In the background, until the session ends. */
    Session keptAlive(long everyMs) {
        Thread thread = new Thread(() -> {
            while (!ended && keepAlive().status() == 200) {
                Interop.nap(everyMs);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return this;
    }

    Rest.Answer end() {
        ended = true;
        return front.send("DELETE", path, "Session-Token", token).expect(200);
    }
}
