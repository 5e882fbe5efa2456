"""What rlock sends to the servers, and what of that nobody else sees."""
import base64
import contextlib
import http.server
import json
import signal
import threading
import uuid
from pathlib import Path

from world import PATIENCE, name, wait_for


def no_token_in_sight(world, front):
    lock, proxy = name(), world.proxy(front)
    run = world.run(proxy.url, "-v", lock, "sh", "-c", "env; sleep 60")
    run.wait_tree(1)
    texts = [Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8")
             for pid, _ in run.processes() for file in ("cmdline", "environ")]
    holder = front.lock(lock)["holders"][0]
    assert holder["note"].split(" ", 1)[1] == f"{run.pid} sh", holder
    run.signal(signal.SIGTERM)
    assert run.status() == 128 + 15
    tokens = proxy.sent("Lease-Token") | proxy.sent("Session-Token")
    assert len(tokens) == 2, tokens
    for text in (*texts, run.out, run.err, json.dumps(holder)):
        assert not any(token in text for token in tokens), text


def trace_is_sent_on(world, front):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    proxy = world.proxy(front)
    run = world.run(proxy.url, name(), "sh", "-c", "echo $TRACEPARENT", TRACEPARENT=parent)
    assert run.status() == 0 and run.out == parent + "\n", run.err
    assert proxy.sent("traceparent") == {parent}
    run = world.run(proxy.url, name(), "true", TRACEPARENT="x\r\nOther: 1")
    assert run.status() == 0 and proxy.sent("traceparent") == {parent}


def one_request_at_a_time_with_one_token(world, front):
    """A run that waits asks again with its token, and keeps its session alive in between."""
    lock, proxy = name(), world.proxy(front)
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000&kind=fair", Lease_Token=str(uuid.uuid4()))
    run = world.run(proxy.url, "-t", "6s", "--fair", lock, "true")
    wait_for(lambda: len(proxy.heads) >= 7, "it has asked often")
    assert front.lock(lock)["waiter_count"] == 1
    run.signal(signal.SIGTERM)
    assert run.status() == 128 + 15
    asked = [head.split("/", 1)[0] for head in proxy.heads]
    assert len(proxy.sent("Lease-Token")) == 1
    assert asked[:7] == ["POST ", "PUT ", "POST "] + ["PUT ", "POST "] * 2, asked


SOME_S = 1 + PATIENCE  # for some keep-alives that are answered at once
HELD = {"leases": [{"lease_id": "l", "state": "held", "remaining_ms": 30000}]}


@contextlib.contextmanager
def keeper(kept):
    """A server that grants, and answers keep-alives at once with these members, one after the
    other, the last of them again and again. Yields its URL, and the paths of its requests."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def reply(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.path)
            body = {"session_id": "s", "lease_id": "l", "ttl_ms": 30000, "remaining_ms": 30000,
                    "fencing_token": 1, "released": 1}
            if self.path.endswith("/keep-alive"):
                body.update({"draining": False, "lost": []},
                            **(kept.pop(0) if len(kept) > 1 else kept[0]))
            body = json.dumps(body).encode()
            with contextlib.suppress(OSError):  # a run that ends hangs up
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = reply

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def a_keep_alive_that_knows_nothing_is_no_loss(world, _):
    """The master of the lock does not answer, or only the session was reached: the lease is
    proven for as long as before."""
    unknown = {"leases": [{"lease_id": "l", "state": "unknown"}]}
    for kept in ([unknown, unknown, HELD], [{}, {}, HELD], [unknown, {"leases": []}]):
        is_lost = kept[-1] is not HELD
        with keeper(kept) as (url, _):
            run = world.run(url, name(), "sleep", str(60 if is_lost else SOME_S))
            assert run.status() == (79 if is_lost else 0), run.err
            assert len(kept) == 1, "all of them were needed"


def a_server_without_places_is_asked_with_pauses(world, _):
    """It answers a keep-alive that would hang at once: no reason to ask again at once."""
    with keeper([HELD]) as (url, asked):
        run = world.run(url, name(), "sleep", str(SOME_S))
        assert run.status() == 0, run.err
        assert 2 <= sum("keep-alive" in path for path in asked) <= 10 * SOME_S, asked


def a_url_has_more_than_a_host(world, front):
    """A user is sent as RFC 7617 says, a folder stands before each path. A name has several
    addresses: localhost is ::1, too, where nobody listens."""
    proxy = world.proxy(front)
    place = f"localhost:{proxy.url.rsplit(':', 1)[1]}"
    run = world.run(f"http://anna:p%40ss@{place}", name(), "true")
    assert run.status() == 0, run.err
    basic = "Basic " + base64.b64encode(b"anna:p@ss").decode()
    assert proxy.sent("Authorization") == {basic} and proxy.sent("Host") == {place}, proxy.heads
    run = world.run(f"http://{place}/folder", "--connect-timeout", "300ms", name(), "true")
    assert run.status() == 64, run.err  # rlockd has no such route
    assert " /folder/v1/sessions " in proxy.heads[-1], proxy.heads


TESTS = {test.__name__: test for test in (
    no_token_in_sight, trace_is_sent_on, one_request_at_a_time_with_one_token,
    a_keep_alive_that_knows_nothing_is_no_loss,
    a_server_without_places_is_asked_with_pauses, a_url_has_more_than_a_host)}
