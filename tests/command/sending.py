"""What rlock sends to the servers, and what of that nobody else sees."""
import json
import signal
import uuid
from pathlib import Path

from world import name, wait_for


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
    run = world.run(proxy.url, "-t", "3s", "--fair", lock, "true")
    wait_for(lambda: len(proxy.heads) >= 7, "it has asked often")
    assert front.lock(lock)["waiter_count"] == 1
    run.signal(signal.SIGTERM)
    assert run.status() == 128 + 15
    asked = [head.split("/", 1)[0] for head in proxy.heads]
    assert len(proxy.sent("Lease-Token")) == 1
    assert asked[:7] == ["POST ", "PUT ", "POST "] + ["PUT ", "POST "] * 2, asked


TESTS = {test.__name__: test for test in (
    no_token_in_sight, trace_is_sent_on, one_request_at_a_time_with_one_token)}
