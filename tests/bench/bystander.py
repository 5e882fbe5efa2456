"""What a bystander feels of clients that ask for the dearest things that the API allows, as
fast as they can: its acquire and release, beside as many ordinary clients and beside those."""
import multiprocessing
import uuid

import measure
from servers import Http

CLIENTS = 8
FILL = 1000  # leases of a session, readers, places: as many as may be
SECONDS = 3


def token():
    return {"Lease-Token": str(uuid.uuid4())}


def must(answer, *statuses):
    if answer[0] not in statuses:
        raise RuntimeError(f"bystander: {answer}")
    return answer[1]


# ---- what is prepared, once for all clients; and what each of them asks, again and again

def ordinary(_http):
    return lambda http: [http.ask("PUT", f"/v1/locks/{uuid.uuid4()}?ttl_ms=1000", token())]


def session(http):
    owner = {"Session-Token": str(uuid.uuid4())}
    path = f"/v1/sessions/{must(http.ask('POST', '/v1/sessions', owner), 201)['session_id']}"
    for i in range(FILL):
        must(http.ask("PUT", f"/v1/locks/{'n' * 400}-{i}", {**owner, **token()}), 201)
    return lambda http: [http.ask("GET", path), http.ask("POST", path + "/keep-alive", owner)]


def readers(http):
    for _ in range(FILL):
        must(http.ask("POST", "/v1/locks/readers?kind=read&ttl_ms=600000"), 201)
    return lambda http: [http.ask("GET", "/v1/locks/readers"),
                         http.ask("GET", "/v1/locks/readers/fencing-tokens/1"),
                         http.ask("PUT", "/v1/locks/readers?kind=write", token())]


def queue(http):
    must(http.ask("PUT", "/v1/locks/queue?kind=fair&ttl_ms=600000", token()), 201)
    for _ in range(FILL):
        must(http.ask("PUT", "/v1/locks/queue?kind=fair&wait_ms=1", token()), 423)
    return lambda http: [http.ask("GET", "/v1/locks/queue"),
                         http.ask("PUT", "/v1/locks/queue?kind=fair&wait_ms=1", token())]


def listing(http):
    for i in range(FILL):
        must(http.ask("PUT", f"/v1/locks/{'l' * 400}-{i}?ttl_ms=600000", token()), 201)
    return lambda http: [http.ask("GET", "/v1/locks?limit=1000")]


ATTACKS = {"a full session": session, "many readers": readers, "a full queue": queue,
           "listings": listing}


def _loop(port, ask, over, asked):
    http = Http(port)
    while not over.is_set():
        count = len(ask(http))
        with asked.get_lock():
            asked.value += count


def _beside(place, server, ask, seconds):
    """The bystander's figures while CLIENTS processes ask."""
    context = multiprocessing.get_context("fork")
    over, asked = context.Event(), context.Value("q", 0)
    clients = [context.Process(target=_loop, args=(server.port, ask, over, asked), daemon=True)
               for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    figures = measure.load(place, "cycle", server, connections=1, seconds=seconds)
    over.set()
    for client in clients:
        client.join()
    return {"p99_us": max(figures["acquire_p99_us"], figures["release_p99_us"]),
            "asked_per_s": asked.value / seconds}


def run(place, results):
    for name, prepare in ATTACKS.items():
        redis = place.redis()
        server = place.rlockd(redis)
        alone = measure.load(place, "cycle", server, connections=1, seconds=1)
        beside_ordinary = _beside(place, server, ordinary(None), SECONDS)
        beside = _beside(place, server, prepare(Http(server.port)), SECONDS)
        results.add(f"bystander {name}", {
            "alone_p99_us": max(alone["acquire_p99_us"], alone["release_p99_us"]),
            "ordinary_p99_us": beside_ordinary["p99_us"], "p99_us": beside["p99_us"],
            "ordinary_per_s": beside_ordinary["asked_per_s"],
            "asked_per_s": beside["asked_per_s"],
            "p99_ratio": beside["p99_us"] / beside_ordinary["p99_us"]})
        server.stop()
        redis.stop()
