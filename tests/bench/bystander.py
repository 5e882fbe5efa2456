"""What a bystander feels of clients that ask for the dearest things that the API allows, as
fast as they can: its acquire and release, beside as many ordinary clients and beside those."""
import multiprocessing
import time
import uuid

import measure
from servers import Http

CLIENTS = 8
FILL = 1000  # leases of a session, readers, places: as many as may be
SECONDS = 3
REFUSED = (429, 503)  # counted: a limit was reached


def token():
    return {"Lease-Token": str(uuid.uuid4())}


def must(answer, *statuses):
    if answer[0] not in statuses:
        raise RuntimeError(f"bystander: {answer}")
    return answer[1]


# ---- what is prepared, once for all clients; and what each of them asks, again and again: the
# answers, each with the status that it has unless it is a refusal

def ordinary(_http):
    return lambda http: [
        (http.ask("PUT", f"/v1/locks/{uuid.uuid4()}?ttl_ms=1000", token()), 201)]


def session(http):
    owner = {"Session-Token": str(uuid.uuid4())}
    path = f"/v1/sessions/{must(http.ask('POST', '/v1/sessions', owner), 201)['session_id']}"
    for i in range(FILL):
        must(http.ask("PUT", f"/v1/locks/{'n' * 400}-{i}", {**owner, **token()}), 201)
    return lambda http: [(http.ask("GET", path), 200),
                         (http.ask("POST", path + "/keep-alive", owner), 200)]


def readers(http):
    for _ in range(FILL):
        must(http.ask("POST", "/v1/locks/readers?kind=read&ttl_ms=600000"), 201)
    return lambda http: [(http.ask("GET", "/v1/locks/readers"), 200),
                         (http.ask("GET", "/v1/locks/readers/fencing-tokens/1"), 409),
                         (http.ask("PUT", "/v1/locks/readers?kind=write", token()), 423)]


def queue(http):
    must(http.ask("PUT", "/v1/locks/queue?kind=fair&ttl_ms=600000", token()), 201)
    for _ in range(FILL):
        must(http.ask("PUT", "/v1/locks/queue?kind=fair&wait_ms=1", token()), 423)
    return lambda http: [(http.ask("GET", "/v1/locks/queue"), 200),
                         (http.ask("PUT", "/v1/locks/queue?kind=fair&wait_ms=1", token()), 423)]


def listing(http):
    for i in range(FILL):
        must(http.ask("PUT", f"/v1/locks/{'l' * 400}-{i}?ttl_ms=600000", token()), 201)
    return lambda http: [(http.ask("GET", "/v1/locks?limit=1000"), 200)]


ATTACKS = {"a full session": session, "many readers": readers, "a full queue": queue,
           "listings": listing}


def _loop(port, ask, over, asked, refused):
    http = Http(port)
    while not over.is_set():
        answers = ask(http)
        for answer, good in answers:
            must(answer, good, *REFUSED)
        with asked.get_lock():
            asked.value += len(answers)
            refused.value += sum(answer[0] in REFUSED for answer, _ in answers)


def _beside(place, server, ask, seconds):
    """The bystander's figures while CLIENTS processes ask."""
    context = multiprocessing.get_context("fork")
    over, asked, refused = context.Event(), context.Value("q", 0), context.Value("q", 0)
    clients = [context.Process(target=_loop, args=(server.port, ask, over, asked, refused),
                               daemon=True) for _ in range(CLIENTS)]
    began = time.monotonic()
    for client in clients:
        client.start()
    figures = measure.load(place, "cycle", server, connections=1, seconds=seconds)
    over.set()
    for client in clients:
        client.join()
        if client.exitcode != 0:
            raise RuntimeError(f"bystander: a client ended with {client.exitcode}")
    return {"p99_us": max(figures["acquire_p99_us"], figures["release_p99_us"]),
            "max_us": max(figures["acquire_max_us"], figures["release_max_us"]),
            "asked_per_s": asked.value / (time.monotonic() - began),
            "refused_percent": 100 * refused.value / max(asked.value, 1)}


def run(place, results):
    for name, prepare in ATTACKS.items():
        redis = place.redis()
        server = place.rlockd(redis)
        alone = measure.load(place, "cycle", server, connections=1, seconds=1)
        beside_ordinary = _beside(place, server, ordinary(None), SECONDS)
        if beside_ordinary["refused_percent"] > 0:
            raise RuntimeError("bystander: an ordinary client was refused")
        beside = _beside(place, server, prepare(Http(server.port)), SECONDS)
        results.add(f"bystander {name}", {
            "alone_p99_us": max(alone["acquire_p99_us"], alone["release_p99_us"]),
            "ordinary_p99_us": beside_ordinary["p99_us"], "p99_us": beside["p99_us"],
            "ordinary_max_us": beside_ordinary["max_us"], "max_us": beside["max_us"],
            "ordinary_per_s": beside_ordinary["asked_per_s"],
            "asked_per_s": beside["asked_per_s"],
            "refused_percent": beside["refused_percent"],
            "p99_ratio": beside["p99_us"] / beside_ordinary["p99_us"]})
        server.stop()
        redis.stop()
