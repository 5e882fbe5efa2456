package rlockd.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.yaml.snakeyaml.Yaml;

/** One front end of rlockd. */
final class Rest {
    final URI base;
    private final Process process;
    private final HttpClient http =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** `process`: null where nobody will kill it. */
    Rest(URI base, Process process) {
        this.base = base;
        this.process = process;
    }

    /** kill -9. */
    void kill() throws InterruptedException {
        Processes.kill(process);
    }

    /** An answer; its members are asked for by a path like "holders.0.note". */
    record Answer(int status, String text) {
        Answer expect(int expected) {
            if (status != expected) {
                throw new AssertionError("expected " + expected + ": " + status + " " + text);
            }
            return this;
        }

        /** Null: there is no such member. */
        Object member(String path) {
            Object at = new Yaml().load(text); // JSON is YAML: Redisson brings a parser of it
            for (String step : path.split("\\.")) {
                if (at instanceof Map<?, ?> map) {
                    at = map.get(step);
                } else if (at instanceof List<?> list && Integer.parseInt(step) < list.size()) {
                    at = list.get(Integer.parseInt(step));
                } else {
                    return null;
                }
            }
            return at;
        }

        String string(String path) {
            return (String) member(path);
        }

        long number(String path) {
            if (member(path) instanceof Number number) {
                return number.longValue();
            }
            throw new AssertionError("no number at " + path + ": " + text);
        }
    }

    Answer get(String path) {
        return send("GET", path);
    }

    /** Headers are names and values in turn. */
    Answer send(String method, String path, String... headers) {
        try {
            HttpResponse<String> response = http.send(request(method, path, headers),
                HttpResponse.BodyHandlers.ofString());
            return new Answer(response.statusCode(), response.body());
        } catch (IOException e) {
            throw new UncheckedIOException(method + " " + path, e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(method + " " + path, e);
        }
    }

    /** Goes on by itself; cancel(true) hangs up. */
    CompletableFuture<Answer> begin(String method, String path, String... headers) {
        return http.sendAsync(request(method, path, headers),
                HttpResponse.BodyHandlers.ofString())
            .thenApply(response -> new Answer(response.statusCode(), response.body()));
    }

    private HttpRequest request(String method, String path, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path))
            .method(method, HttpRequest.BodyPublishers.noBody())
            .timeout(Duration.ofSeconds(60 * Interop.PATIENCE));
        if (headers.length > 0) {
            request.headers(headers);
        }
        return request.build();
    }

    /** "?a=1&b=2" of `begin` and more fields, names and values in turn. */
    static String query(String begin, Object... fields) {
        StringBuilder query = new StringBuilder(begin);
        for (int i = 0; i < fields.length; i += 2) {
            query.append(query.isEmpty() ? "" : "&")
                .append(fields[i]).append('=').append(fields[i + 1]);
        }
        return query.isEmpty() ? "" : "?" + query;
    }

    static String encode(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
