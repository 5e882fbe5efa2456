package rlockd.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** A lock as REST clients see it; its leases acquire and release. */
final class RestLock {
    private final Rest front;
    private final String path;
    private final String kind;

    RestLock(Rest front, String name, String kind) {
        this.front = front;
        this.path = "/v1/locks/" + Rest.encode(name);
        this.kind = kind;
    }

    Lease lease() {
        return new Lease(null, null);
    }

    Rest.Answer look() {
        return front.get(path).expect(200);
    }

    Rest.Answer forceUnlock() {
        return front.send("POST", path + "/force-unlock").expect(200);
    }

    void awaitWaiters(long count) {
        Interop.eventually(count + " waiters", 5000,
            () -> look().number("waiter_count") == count);
    }

    /** One token's worth of the lock. */
    final class Lease {
        private final String token = UUID.randomUUID().toString();
        private final Session session;
        private final String owner;

        private Lease(Session session, String owner) {
            this.session = session;
            this.owner = owner;
        }

        /** `fields`: names and values in turn. */
        Rest.Answer acquire(Object... fields) {
            StringBuilder query = new StringBuilder("?kind=" + kind);
            for (int i = 0; i < fields.length; i += 2) {
                query.append('&').append(fields[i]).append('=').append(fields[i + 1]);
            }
            if (owner != null) {
                query.append("&owner=").append(owner);
            }
            return send("PUT", query.toString());
        }

        Rest.Answer renew(long ttlMs) {
            return send("PATCH", "?ttl_ms=" + ttlMs);
        }

        Rest.Answer release() {
            return send("DELETE", "");
        }

        private Rest.Answer send(String method, String query) {
            List<String> headers = new ArrayList<>(List.of("Lease-Token", token));
            if (session != null) {
                headers.addAll(List.of("Session-Token", session.token));
            }
            return front.send(method, path + query, headers.toArray(String[]::new));
        }
    }

    /** A REST client's life; somebody has to keep it alive. */
    static final class Session {
        private final Rest front;
        private final String token = UUID.randomUUID().toString();
        private final String path;
        private volatile boolean ended;

        Session(Rest front, long ttlMs) {
            this.front = front;
            this.path = "/v1/sessions/" + front
                .send("POST", "/v1/sessions?ttl_ms=" + ttlMs, "Session-Token", token)
                .expect(201).string("session_id");
        }

        Lease lease(RestLock lock) {
            return lock.new Lease(this, null);
        }

        Lease lease(RestLock lock, String owner) {
            return lock.new Lease(this, owner);
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
}
