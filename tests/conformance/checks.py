"""What a client of locks has to do. One function for each rule, which is its docstring."""
import json
import time
import uuid
from urllib.parse import parse_qs, urlsplit

from trial import SLACK_S, SOON_S, TTL_S
from proxy import BLACK, HALF, LOSE, TWICE, answer, late, passes, problem
from servers import free_port, wait_for

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def is_acquire(request):
    return request.is_acquire()


def is_proof(request):
    return request.is_proof()


def opens_session(request):
    return request.method == "POST" and request.target == "/v1/sessions"


def is_delete(request):
    return request.is_delete()


def everything(_):
    return True


# ---- to acquire

@check
def acquire_and_release(trial):
    """acquires a free lock, names its fencing token, releases it"""
    lease = trial.client.acquire(trial.lock)
    token = trial.client.expect(lease, "held")["fencing_token"]
    assert token == trial.look()["fencing_token"], f"another fencing token: {token}"
    assert trial.client.is_held(lease)
    trial.released(lease)
    assert not trial.client.is_held(lease)


@check
def busy(trial):
    """a lock that is held is `busy`, and nothing is left of the request"""
    release = trial.hold()
    lease = trial.client.acquire(trial.lock)
    trial.client.expect(lease, "busy")
    assert not trial.client.has(lease, "held")
    release()
    trial.is_free()


@check
def wait_for_release(trial):
    """waits, and has the lock when its holder releases it"""
    release = trial.hold()
    lease = trial.client.acquire(trial.lock, wait_s=SOON_S)
    wait_for(lambda: trial.look().get("waiter_count"), "a waiter", SOON_S)
    trial.never(lease, "held", 0.2)
    release()
    trial.client.expect(lease, "held")
    trial.released(lease)


@check
def short_waits(trial):
    """waits by shorter requests at a server with a small `--max-wait-ms`"""
    trial.proxy.fronts = [trial.place.front(trial.place.shared, "--max-wait-ms", "1000")]
    release = trial.hold()
    lease = trial.client.acquire(trial.lock, wait_s=SOON_S)
    wait_for(lambda: trial.look().get("waiter_count"), "a waiter", SOON_S)
    trial.never(lease, "held", 1.2)
    release()
    trial.client.expect(lease, "held")
    trial.released(lease)


@check
def answer_lost(trial):
    """repeats a request whose answer was lost, with one token, and holds the lock once"""
    trial.proxy.first(2, is_acquire, LOSE)
    lease = trial.held(wait_s=SOON_S)
    tokens = {request.token for request in trial.acquires()}
    assert len(tokens) == 1, f"{len(tokens)} tokens for one lease"
    assert trial.look()["holders"][0]["hold_count"] == 1
    trial.released(lease)


@check
def answer_cut(trial):
    """half of an answer is no answer: repeats the request"""
    trial.proxy.first(1, is_acquire, HALF)
    lease = trial.held(wait_s=SOON_S)
    assert len(trial.acquires()) >= 2, "it has taken half of an answer for a grant"
    trial.released(lease)


@check
def request_twice(trial):
    """a request that a proxy repeats changes nothing"""
    trial.proxy.always(everything, TWICE)
    trial.released(trial.held(wait_s=SOON_S))


@check
def not_executed(trial):
    """repeats after 503 and 502, and not in haste"""
    began = time.monotonic()
    trial.proxy.always(is_acquire, problem(503, "redis-unavailable", outcome="not-executed"))
    lease = trial.client.acquire(trial.lock, wait_s=SOON_S)
    wait_for(lambda: len(trial.acquires()) >= 2, "a repetition", SOON_S)
    trial.never(lease, "held", 1)
    pace = len(trial.acquires()) / (time.monotonic() - began)
    assert pace < 12, f"{pace:.0f} requests a second"
    trial.proxy.first(1, is_acquire, problem(502, "bad-gateway"))
    trial.client.expect(lease, "held")
    trial.released(lease)


@check
def not_an_answer_of_rlockd(trial):
    """a 200 that is no grant is no lease, one that is no release is none"""
    trial.proxy.always(is_acquire, answer(200, "<html>log in</html>", Content_Type="text/html"))
    lease = trial.client.acquire(trial.lock, wait_s=1)
    trial.never(lease, "held", 1.5)
    trial.client.expect(lease, "busy")
    trial.proxy.rule = passes
    lease, before = trial.held(), len(trial.proxy.seen(is_delete))
    other = answer(200, '{"ok": true}', Content_Type="application/json")
    trial.proxy.first(1, is_delete, other)
    trial.released(lease)
    assert len(trial.proxy.seen(is_delete)) >= before + 2, "it has not asked again"


@check
def refusal_of_a_gateway(trial):
    """a 403 or 404 that is none of rlockd's problems is no answer: repeats the request"""
    gateway = [answer(404, '{"message": "no Route matched"}', Content_Type="application/json"),
               answer(403, '{"type": "about:blank", "title": "Forbidden", "status": 403}',
                      Content_Type="application/problem+json")]
    left = {which: [*gateway] for which in (opens_session, is_acquire, is_proof, is_delete)}

    def rule(request):
        replies = next((left[which] for which in left if which(request)), None)
        return replies.pop() if replies else None
    trial.proxy.rule = rule
    lease = trial.held(wait_s=SOON_S)
    trial.never(lease, "lost", TTL_S * 1.2)
    assert not left[is_proof], "no keep-alive"
    trial.released(lease)
    assert not left[is_delete], "it has not asked again"


@check
def next_server(trial):
    """asks the next server of RLOCK_URL when one gives no answer, also later on"""
    trial.restart_client(f"http://127.0.0.1:{free_port()},{trial.proxy.url}")
    lease = trial.held(wait_s=SOON_S)
    trial.never(lease, "lost", TTL_S * 1.2)
    trial.released(lease)


@check
def next_server_without_a_wait(trial):
    """asks the next server when one is stopping, also when it does not wait for the lock"""
    trial.restart_client(f"{trial.proxy.url},{trial.fronts[0].url}")
    trial.proxy.always(is_acquire, problem(503, "draining", outcome="not-executed"))
    trial.released(trial.held())


@check
def token_for_each_lease(trial):
    """a new lease has a new token"""
    for _ in range(2):
        trial.released(trial.held())
    tokens = [request.token for request in trial.acquires()]
    assert len(set(tokens)) == len(tokens) == 2, f"{len(set(tokens))} tokens"
    assert all(token == str(uuid.UUID(token)) for token in tokens)


@check
def several_locks(trial):
    """holds several locks; the release of one leaves the others"""
    other = trial.lock + "-b"
    first, second = trial.held(), trial.client.acquire(other)
    trial.client.expect(second, "held")
    trial.released(first)
    assert trial.client.is_held(second) and trial.look(other)["locked"]
    trial.client.do("release", id=second)
    trial.client.expect(second, "released")
    trial.is_free(other)


@check
def shared(trial):
    """read leases share a lock, a write lease does not"""
    leases = [trial.client.acquire(trial.lock, kind="read") for _ in range(2)]
    for lease in leases:
        trial.client.expect(lease, "held")
    trial.client.expect(trial.client.acquire(trial.lock, kind="write"), "busy")
    for lease in leases:
        trial.client.do("release", id=lease)
        trial.client.expect(lease, "released")
    trial.is_free()


@check
def several_at_once(trial):
    """several locks at once: all or none; the loss of one is the loss of all"""
    other = trial.lock + "-b"
    release = trial.hold(other)
    trial.client.expect(trial.client.acquire(trial.lock, also=[other]), "busy")
    trial.is_free()
    release()
    lease = trial.held(also=[other])
    assert trial.look(other)["locked"], "the second lock is free"
    trial.released(lease)
    trial.is_free(other)
    lease = trial.held(also=[other])
    trial.never(lease, "lost", TTL_S * 1.2)
    trial.force()
    trial.lost(lease, time.monotonic() + TTL_S + SLACK_S)


@check
def permit(trial):
    """permits of a permit semaphore: kept alive, and given back"""
    target = f"/v1/permit-semaphores/{trial.lock}"
    assert trial.ask("PUT", target, {}, {"permits": 1})[0] == 201

    def available():
        return trial.ask("GET", target)[1]["available"]
    lease = trial.client.acquire(trial.lock, kind="permit")
    trial.client.expect(lease, "held")
    trial.client.expect(trial.client.acquire(trial.lock, kind="permit"), "busy")
    trial.never(lease, "lost", TTL_S * 1.2)
    assert available() == 0
    trial.client.do("release", id=lease)
    trial.client.expect(lease, "released")
    wait_for(available, "a free permit", SOON_S)


@check
def slow_answers(trial):
    """takes a grant whose answer was slow, but not too late"""
    trial.proxy.always(is_acquire, late(TTL_S * 0.2))
    lease = trial.held(wait_s=SOON_S)
    trial.proxy.rule = passes
    trial.released(lease)


# ---- to give up

@check
def cancel(trial):
    """gives up with a DELETE: behind a proxy nobody sees a hang-up"""
    release = trial.hold()
    lease = trial.client.acquire(trial.lock, wait_s=30)
    wait_for(lambda: trial.look().get("waiter_count"), "a waiter", SOON_S)
    trial.client.do("cancel", id=lease)
    trial.client.expect(lease, "cancelled")
    wait_for(lambda: not trial.look().get("waiter_count"), "the waiter is gone", SOON_S)
    release()
    assert not trial.look()["locked"], "the lock is held for a client that has given up"


@check
def give_up_what_is_unknown(trial):
    """a grant of which the client never heard is given up when its wait is over"""
    trial.proxy.always(is_acquire, LOSE)
    lease = trial.client.acquire(trial.lock, wait_s=0.2)
    trial.client.expect(lease, "busy")
    trial.is_free(seconds=TTL_S * 0.5)
    assert not trial.client.has(lease, "held")


@check
def release_answer_lost(trial):
    """repeats a DELETE whose answer was lost, and reports a release"""
    lease = trial.held()
    trial.proxy.first(1, is_delete, LOSE)
    trial.released(lease)
    assert len(trial.proxy.seen(is_delete)) >= 2, "it has not asked again"


# ---- to hold

@check
def kept_alive(trial):
    """keeps a lease alive for longer than its ttl"""
    lease = trial.held()
    trial.never(lease, "lost", TTL_S * 1.7)
    assert trial.look()["locked"] and trial.client.is_held(lease)
    trial.released(lease)


@check
def keep_alive_fails(trial):
    """two keep-alives may fail, one without an answer, one with a 503"""
    lease = trial.held()
    replies = [LOSE, problem(503, "redis-unavailable", outcome="unknown")]
    trial.proxy.rule = lambda request: replies.pop(0) \
        if request.is_proof() and replies else None
    trial.never(lease, "lost", TTL_S * 1.7)
    assert not replies, "no keep-alive"
    assert trial.look()["locked"]
    trial.released(lease)


@check
def keep_alive_refused(trial):
    """a 401 is no end of a lease: the file of the API token was just being written"""
    lease = trial.held()
    trial.proxy.first(1, is_proof, problem(401, "unauthenticated"))
    trial.never(lease, "lost", TTL_S * 1.2)
    assert trial.look()["locked"]
    trial.released(lease)


@check
def rolling_restart(trial):
    """holds a lease while each front end is restarted in turn"""
    trial.proxy.fronts = fronts = [trial.place.front(trial.place.shared) for _ in range(2)]
    lease = trial.held()
    for front in fronts:
        assert front.stop() == 0
        front.start()
    trial.never(lease, "lost", TTL_S * 0.5)
    trial.released(lease)


@check
def no_place_to_hang(trial):
    """pauses where each keep-alive is answered at once, as by a server without places"""
    def rule(request):
        if request.is_proof() and request.body:
            request.body = json.dumps({**json.loads(request.body), "wait_ms": 0}).encode()
    trial.proxy.rule = rule
    lease = trial.held()
    trial.never(lease, "lost", TTL_S / 2)
    assert len(trial.proofs()) <= 50, f"{len(trial.proofs())} keep-alives"
    trial.released(lease)


# ---- to lose

@check
def forced(trial):
    """stops soon when the lock is forced open, and reports no release"""
    lease = trial.held()
    trial.force()
    trial.lost(lease, time.monotonic() + TTL_S + SLACK_S)
    assert not trial.client.is_held(lease)
    trial.client.do("release", id=lease)
    trial.never(lease, "released", 0.3)


def tells_of_loss(request):
    return request.is_proof() and request.status is not None and (
        request.status == 410 or json.loads(request.reply).get("lost"))


@check
def loss_told_once(trial):
    """notices a loss although the answer that told of it was lost"""
    lease = trial.held()

    trial.proxy.always(is_proof, LOSE)
    before = len(trial.proxy.seen(is_proof))
    wait_for(lambda: len(trial.proxy.seen(is_proof)) > before, "one that is lost", SOON_S)
    trial.force()
    wait_for(lambda: trial.proxy.seen(tells_of_loss), "an answer tells of the loss", SOON_S)
    trial.proxy.rule = passes
    trial.lost(lease, time.monotonic() + TTL_S + SLACK_S)


@check
def session_ended(trial):
    """stops when its session, or else its lease, was ended"""
    lease = trial.held()
    if not end_sessions(trial):
        token = {"Lease-Token": trial.acquires()[0].token}
        trial.ask("DELETE", f"/v1/locks/{trial.lock}", token)
    trial.lost(lease, time.monotonic() + TTL_S + SLACK_S)


def end_sessions(trial):
    """Whether the client has opened one."""
    opened = trial.proxy.seen(lambda request: request.target.startswith("/v1/sessions") and
                              request.status == 201)
    for request in opened:
        secret = {"Session-Token": request.headers["Session-Token"]}
        session = json.loads(request.reply)["session_id"]
        assert trial.ask("DELETE", f"/v1/sessions/{session}", secret)[0] == 200
    return opened


@check
def session_ended_between_leases(trial):
    """acquires at once, in another session, when its own was ended while it held nothing"""
    trial.released(trial.held())
    trial.proxy.always(is_proof, LOSE)  # nobody has told the client
    before = trial.proxy.seen(is_proof)
    wait_for(lambda: all(request.status for request in before), "no earlier one hangs", SOON_S)
    end_sessions(trial)
    lease = trial.held()
    trial.proxy.rule = passes
    trial.released(lease)
    tokens = {request.token for request in trial.acquires()}
    pairs = {(request.token, request.headers.get("Session-Token"))
             for request in trial.acquires()}
    assert len(tokens) == len(pairs), "one token in two sessions"


@check
def black_network(trial):
    """stops before the deadline when nothing passes any more"""
    lease = trial.held()
    wait_for(lambda: len(trial.proofs()) >= 1, "a keep-alive", SOON_S)
    trial.proxy.always(everything, BLACK)
    trial.lost(lease, time.monotonic() + TTL_S + SLACK_S)


@check
def deadline_from_sending(trial):
    """counts the deadline from when a request was sent, not from its late answer"""
    lease = trial.held()
    delay, proofs = TTL_S * 0.55, []

    def rule(request):
        if not request.is_proof():
            return None
        proofs.append(request)
        return late(delay) if len(proofs) == 1 else BLACK
    trial.proxy.rule = rule
    wait_for(lambda: proofs, "a keep-alive", SOON_S)
    trial.lost(lease, proofs[0].at + wait_ms(proofs[0]) / 1000 + TTL_S + SLACK_S)


@check
def session_answer_lost(trial):
    """a repeated request for a session extends nothing: the deadline is that of the first"""
    opened = []

    def rule(request):
        if request.is_proof():
            return BLACK
        if not opens_session(request):
            return None
        opened.append(request)
        if len(opened) == 1:
            return LOSE
        is_early = request.at < opened[0].at + TTL_S * 0.6
        return problem(503, "redis-unavailable", outcome="not-executed") if is_early else None
    trial.proxy.rule = rule
    lease = trial.held(wait_s=SOON_S)
    grant = trial.acquires()[-1]
    session = grant.headers.get("Session-Token")
    first = next((request for request in opened
                  if request.headers.get("Session-Token") == session), grant)
    trial.lost(lease, first.at + TTL_S + SLACK_S)


def wait_ms(request):
    """For how long a keep-alive may hang; an answer without a loss proves that time, too."""
    query = parse_qs(urlsplit(request.target).query)
    body = json.loads(request.body or "{}")
    return float(query.get("wait_ms", [body.get("wait_ms", 0)])[0])


# ---- secrets

@check
def secrets(trial):
    """no token in an argument, in the environment, in an address or in what is printed"""
    lease = trial.held()
    tokens = {value for request in trial.proxy.seen(everything)
              for name, value in request.headers.items() if name.lower().endswith("-token")}
    assert tokens
    places = {"an address": " ".join(r.target for r in trial.proxy.seen(everything))}
    for process in trial.client.processes():
        for file in ("cmdline", "environ"):
            places[file] = places.get(file, "") + (process / file).read_bytes().decode()
    trial.released(lease)
    places["what is printed"] = trial.client.log.read_text() + str(trial.client.events)
    for where, text in places.items():
        assert not any(token in text for token in tokens), f"a token is in {where}"
