package rlockd.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** A REST client's life; somebody has to keep it alive. */
final class Session {
    /** Those of the test that runs in this thread. */
    private static final ThreadLocal<List<Session>> OF_TEST =
        ThreadLocal.withInitial(ArrayList::new);

    final String token = UUID.randomUUID().toString();
    private final Rest front;
    private final String path;
    private volatile boolean ended;

    Session(Rest front, long ttlMs) {
        this.front = front;
        this.path = "/v1/sessions/" + front
            .send("POST", "/v1/sessions?ttl_ms=" + ttlMs, "Session-Token", token)
            .expect(201).string("session_id");
        OF_TEST.get().add(this);
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
        return delete().expect(200);
    }

    private Rest.Answer delete() {
        ended = true;
        return front.send("DELETE", path, "Session-Token", token);
    }

    /** Ends those that a test which failed did not end. */
    static void endRest() {
        OF_TEST.get().stream().filter(session -> !session.ended).forEach(Session::delete);
        OF_TEST.remove();
    }
}
