import java.net.URI;
import java.net.http.*;
import java.util.UUID;
import org.redisson.Redisson;
import org.redisson.config.Config;

/**
 * BesideRedisson RLOCKD REDIS ROUNDS: one thread locks by Redisson, one by HTTP, the same lock.
 *
 * When things go wrong: if this process dies, Redisson's lock is free after its watchdog's 30 s,
 * and that of HTTP after `ttl_ms`. A DELETE that is not 200 says that the lock ended before.
 */
class BesideRedisson {
    static final HttpClient http = HttpClient.newHttpClient();
    static int counter; // no atomic, no volatile: the lock alone guards it

    static void count() {
        int seen = counter;
        java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
        counter = seen + 1;
    }

    /** Sends the request until its outcome is known; the token makes that safe. */
    static void ask(String method, String url, String token) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url)).header("Lease-Token", token)
            .method(method, HttpRequest.BodyPublishers.noBody()).build();
        for (int status = 503; status / 100 != 2; Thread.sleep(status / 100 == 2 ? 0 : 200)) {
            try {
                status = http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
            } catch (java.io.IOException noAnswer) { continue; }
            if (status >= 400 && status < 423) throw new IllegalStateException(method + status);
        }
    }

    public static void main(String[] args) throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress(args[1]);
        var redisson = Redisson.create(config);
        int rounds = Integer.parseInt(args[2]);
        var java = new Thread(() -> {
            var lock = redisson.getLock("orders/42");
            for (int i = 0; i < rounds; i++) {
                lock.lock();
                try { count(); } finally { lock.unlock(); }
            }
        });
        java.start();
        for (int i = 0; i < rounds; i++) {
            String url = args[0] + "/v1/locks/orders%2F42", token = UUID.randomUUID().toString();
            ask("PUT", url + "?wait_ms=20000&ttl_ms=30000", token);
            count();
            ask("DELETE", url, token);
        }
        java.join();
        redisson.shutdown();
        System.out.println(counter + " of " + 2 * rounds);
    }
}
