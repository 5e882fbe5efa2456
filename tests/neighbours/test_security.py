"""What holds for the routes of every protocol. A protocol is a row of PROTOCOLS."""
import base64
import contextlib
import json
import uuid

from world import BASIC

# A request that acquires something new, a caller who may, and one who may elsewhere only.
PROTOCOLS = {
    "terraform": ("/terraform/a-{}", lambda name: {"ID": name}, "team-a", "machines"),
    "fleetlock": ("/fleetlock/v1/pre-reboot",
                  lambda name: {"client_params": {"id": name, "group": f"web-{name}"}},
                  "web-machines", "team-b"),
    "lfs": ("/lfs/art/locks", lambda name: {"path": name}, "artist-a", "team-a"),
}
MARK = {"fleet-lock-protocol": "true"}
FOREIGN = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


def statuses(front, headers):
    """Asks by each protocol; the statuses and the challenges that came, by protocol."""
    came = {}
    for protocol, (target, body, allowed, refused) in PROTOCOLS.items():
        name = uuid.uuid4().hex
        given = headers(allowed, refused) if callable(headers) else headers
        with contextlib.closing(front.connect()) as connection:
            status, _ = connection.ask("POST", target.format(name), {**MARK, **given},
                                       json.dumps(body(name)))
            challenges = connection.headers.get_all("WWW-Authenticate") or []
        came[protocol] = status // 100 if status < 300 else status, sorted(
            challenge.split()[0] for challenge in challenges)
    return came


def each(status, *challenges):
    return {protocol: (status, list(challenges)) for protocol in PROTOCOLS}


def basic(pair):
    return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


def basic_of_any_user(world):
    """The password is the API token, whatever the user is called; `Basic` in any case."""
    for user in ("", "anna", "Ü" * 40, "team-b"):
        came = statuses(world.guarded, lambda caller, _, user=user: basic(
            f"{user}:{BASIC[caller]}".encode()))
        assert came == each(2), (user, came)
    assert statuses(world.guarded, lambda caller, _: {
        "Authorization": world.basic(caller).replace("Basic", "bAsIc")}) == each(2)
    assert statuses(world.guarded, lambda caller, _: {
        "Authorization": f"Bearer {BASIC[caller]}"}) == each(2)


def basic_that_is_none(world):
    """Whatever else stands there is 401, which asks for Basic, too."""
    good = base64.b64encode(f"u:{BASIC['admin']}".encode()).decode()
    for text in ("Basic", "Basic ", "Basic !", f"Basic {good} x", f"Basic {good}=",
                 f"Basic {good[:-4]}", "Basic " + base64.b64encode(b"admin").decode(),
                 "Basic " + base64.b64encode(b"admin:").decode(),
                 "Basic " + base64.b64encode(b":\xff\xfe").decode(),
                 "Basic " + base64.b64encode(b"u:" + BASIC["admin"].encode() + b"\0").decode(),
                 "Basic " + base64.b64encode(b"x" * 6000).decode()):
        came = statuses(world.guarded, {"Authorization": text})
        assert all(status == 401 for status, _ in came.values()), (text, came)
    assert statuses(world.guarded, {}) == each(401, "Basic", "Bearer")
    assert statuses(world.guarded, basic(b"u:of-nobody-0123456789")) == \
        each(401, "Basic", "Bearer")


def rights_are_by_prefix(world):
    """A right to other names is 403, and no password is asked for."""
    came = statuses(world.guarded, lambda _, other: {"Authorization": world.basic(other)})
    assert came == each(403, "Bearer"), came


def web_pages(world):
    """A page of another origin is refused although these routes take any Content-Type, which a
    form may send; no page makes the browser ask its user for a password."""
    user = basic(b"anna:x")  # who locks files in Git LFS has a name
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        came = statuses(world.fronts[0], {**user, **FOREIGN, "Content-Type": kind})
        assert came == each(403), (kind, came)
    assert statuses(world.fronts[0], {**user, "Origin": "null"}) == each(403)
    own = {"Origin": world.guarded.url, "Sec-Fetch-Site": "same-origin"}
    assert statuses(world.guarded, own) == each(401, "Bearer")


def bodies_of_any_type(world):
    """The Content-Type does not matter."""
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/json",
                 "application/vnd.git-lfs+json; charset=utf-8", "no type at all"):
        came = statuses(world.fronts[0], {**basic(b"anna:x"), "Content-Type": kind})
        assert came == each(2), (kind, came)
