"""Locks of Git LFS: what the real git-lfs sees, and the protocol by hand."""
import base64
import contextlib
import http.client
import json
import random
import re
import subprocess
import uuid
from pathlib import Path

from lfs import NGINX, Clone, Objects
from servers import free_port
from world import BASIC, expect, made_up

GUIDE = Path(__file__).resolve().parents[2] / "docs/neighbours.md"
MANY, PAGE = 10000, 1000
MADE_UP = "192.0.2.66"  # an address that no client has


def basic(user, password="any"):
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def new_repo():
    return f"repo-{uuid.uuid4().hex}"


class Repo:
    """The protocol by hand, for one repository; users are the names of Basic."""

    def __init__(self, front, name=None, passwords=None):
        self.front, self.name, self.passwords = front, name or new_repo(), passwords or {}

    def ask(self, method, rest, user, body=None):
        status, answer = self.front.ask(
            method, f"/lfs/{self.name}/locks{rest}",
            basic(user, self.passwords.get(user, "any")) if user else {}, body)
        assert status < 400 or answer["message"], answer
        return status, answer

    def lock(self, path, user="anna", query=""):
        return self.ask("POST", query, user, {"path": path, "ref": {"name": "refs/heads/main"}})

    def pages(self, user="anna", limit=0):
        """The pages of the list, each asked for with the cursor of the page before."""
        more = ""
        while more is not None:
            page = expect(self.ask("GET", f"?limit={limit}{more}", user), 200)
            yield page["locks"]
            more = f"&cursor={page['next_cursor']}" if "next_cursor" in page else None

    def list(self, query=None, user="anna"):
        if query:  # of one path, which has no pages
            return expect(self.ask("GET", query, user), 200)["locks"]
        return [lock for page in self.pages(user) for lock in page]

    def verify(self, user="anna", limit=0):
        """Ours and theirs, of all pages."""
        more, ours, theirs = {}, [], []
        while more is not None:
            page = expect(self.ask("POST", "/verify", user,
                                   {"ref": {"name": "a"}, "limit": limit, **more}), 200)
            assert len(page["ours"]) + len(page["theirs"]) <= (limit or PAGE)
            ours, theirs = ours + page["ours"], theirs + page["theirs"]
            more = {"cursor": page["next_cursor"]} if "next_cursor" in page else None
        return {"ours": ours, "theirs": theirs}

    def unlock(self, lock_id, user="anna", force=False):
        return self.ask("POST", f"/{lock_id}/unlock", user,
                        {"force": force, "ref": {"name": "a"}})

    def look(self, path):
        name = f"lfs/{self.name}/{path}".replace("/", "%2F")
        return self.front.ask("GET", f"/v1/locks/{name}")[1]


# --- the real program ------------------------------------------------------------------------

class Team:
    """Two users with clones of one repository, whose *.bin are to be locked."""

    def __init__(self, world, url, users=("anna", "ben"), **passwords):
        folder = world.place.folder / uuid.uuid4().hex
        folder.mkdir()
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder / "origin"],
                       check=True)
        self.clones = [Clone(folder / user, folder / "origin", user, url,
                             passwords.get(user, "any")) for user in users]
        first = self.clones[0]
        first.write(".gitattributes",
                    "*.bin lockable\n*.obj filter=lfs diff=lfs merge=lfs -text\n")
        first.write("art/käse 1.bin", "1")
        first.git("push", "-q", "origin", "HEAD:main")
        for clone in self.clones[1:]:
            clone.git("pull", "-q", "origin", "main")


def direct(world, front=None):
    """A team whose lfs.url is rlockd: for repositories without objects of Git LFS."""
    name = new_repo()
    front = front or world.fronts[0]
    return Repo(front, name), Team(world, f"{front.url}/lfs/{name}").clones


def lock_list_unlock(world):
    """A lock keeps the other user off, both see it, its owner alone unlocks it; the file may be
    written as long as it is locked."""
    repo, (anna, ben) = direct(world)
    path = "art/käse 1.bin"
    anna.lfs("lock", path)
    assert (anna.folder / path).stat().st_mode & 0o200
    assert "locked already, by anna" in anna.lfs("lock", path, works=False)
    assert "locked already, by anna" in ben.lfs("lock", path, works=False)
    for clone in (anna, ben):
        assert re.search(rf"{path}\s+anna\s", clone.lfs("locks")), clone.lfs("locks")
    assert re.search(rf"^O\s+{path}", anna.lfs("locks", "--verify"), re.M)
    assert not re.search(r"^O ", ben.lfs("locks", "--verify"), re.M)
    found = json.loads(ben.lfs("locks", "--json", "-p", path))
    assert [lock["path"] for lock in found] == [path]
    assert "is of anna" in ben.lfs("unlock", path, works=False)
    anna.lfs("unlock", path)
    assert not (anna.folder / path).stat().st_mode & 0o200
    assert not repo.list() and "no matching locks" in anna.lfs("unlock", path, works=False)
    ben.lfs("lock", path)
    lock_id = repo.list()[0]["id"]
    ben.lfs("unlock", "--id", lock_id)


def verify_at_push(world):
    """A push of a file that another user has locked is stopped; the owner's push is not, nor
    anyone's once the lock is gone."""
    _, (anna, ben) = direct(world)
    path = "art/käse 1.bin"
    anna.lfs("lock", path)
    ben.write(path, "of ben")
    output = ben.git("push", "origin", "HEAD:main", works=False)
    assert "Unable to push locked files" in output and f"{path} - anna" in output, output
    anna.write(path, "of anna")
    anna.git("push", "-q", "origin", "HEAD:main")
    anna.lfs("unlock", path)
    ben.git("fetch", "-q", "origin")
    ben.git("rebase", "-q", "-Xtheirs", "origin/main")
    ben.git("push", "-q", "origin", "HEAD:main")


def force(world):
    """--force ends the lock of another user, and the former owner can lock again at once."""
    repo, (anna, ben) = direct(world)
    path = "art/käse 1.bin"
    for _ in range(3):
        anna.lfs("lock", path)
        ben.lfs("unlock", "--force", path)
        ben.lfs("lock", path)
        ben.lfs("unlock", path)
    assert not repo.list()


def locks_beside_objects(world):
    """With the recipe of docs/neighbours.md, nginx leads the locks of an LFS URL to rlockd and
    the rest to the server of the objects: a locked object is pushed by its owner, and by
    nobody else; it may be large, and clients do not choose their address in the log."""
    port, name = free_port(), new_repo()
    url = f"http://127.0.0.1:{port}/lfs/{name}"
    objects = Objects(url)
    front = world.place.front(world.redis, "--trusted-proxies", "127.0.0.1")
    recipe = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)[1]
    recipe = recipe.replace("http://localhost:7400", front.url)
    recipe = recipe.replace("https://objects.example", objects.url)
    folder = world.place.folder / "nginx"
    folder.mkdir()
    (folder / "nginx.conf").write_text(NGINX.format(port=port, recipe=recipe), encoding="utf-8")

    def answers():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", f"/lfs/{name}/locks",
                               headers={**basic("anna"), "X-Forwarded-For": MADE_UP})
            return connection.getresponse().status == 200
    nginx = world.place.start(["nginx", "-p", folder, "-c", "nginx.conf"], answers=answers)
    large = "of anna " * 250000
    with contextlib.closing(objects):
        anna, ben = Team(world, url).clones
        anna.write("model.obj", large)
        anna.lfs("lock", "model.obj")
        anna.git("push", "-q", "origin", "HEAD:main")
        assert list(objects.kept.values()) == [large.encode()], len(objects.kept)
        ben.git("pull", "-q", "origin", "main")
        assert (ben.folder / "model.obj").read_text(encoding="utf-8") == large
        ben.write("model.obj", "of ben")
        assert "model.obj - anna" in ben.git("push", "origin", "HEAD:main", works=False)
        assert len(objects.kept) == 1, "an object was pushed before its lock was asked for"
        anna.lfs("unlock", "model.obj")
        ben.git("push", "-q", "origin", "HEAD:main")
    nginx.stop()
    front.stop()
    log = front.log.read_text(encoding="utf-8")
    assert "/lfs/" in log and MADE_UP not in log, "a client chooses its address in the log"


def callers_are_owners(world):
    """With API tokens the password is what counts: the owner is the caller, whatever user name
    is sent; force needs the right `operate`."""
    url = f"{world.guarded.url}/lfs/art"
    anna, ben, boss = Team(world, url, ("anna", "ben", "boss"), anna=BASIC["artist-a"],
                           ben=BASIC["artist-b"], boss=BASIC["admin"]).clones
    path = "art/käse 1.bin"
    anna.lfs("lock", path)
    assert "artist-a" in ben.lfs("locks")
    assert "is of artist-a" in ben.lfs("unlock", path, works=False)
    assert "operate" in ben.lfs("unlock", "--force", path, works=False)
    ben.write(path, "of ben")
    assert "Unable to push" in ben.git("push", "origin", "HEAD:main", works=False)
    boss.lfs("unlock", "--force", path)
    ben.git("push", "-q", "origin", "HEAD:main")
    anna.git("config", "lfs.url", f"{world.guarded.url}/lfs/other")
    assert "no right" in anna.lfs("lock", path, works=False)


def ten_thousand_locks(world):
    """10,000 locks beside those of another repository are listed page by page, none missing
    and none twice; git-lfs follows the pages, and a push is checked against all of them."""
    repo, (anna, ben) = direct(world)
    with contextlib.closing(world.fronts[0].connect()) as connection:
        for number in range(MANY + PAGE):
            name = repo.name if number < MANY else f"{repo.name}-other"
            expect(connection.ask("POST", f"/lfs/{name}/locks", basic("anna"),
                                  {"path": f"art/{number}.bin"}), 201)
    wanted = {f"art/{number}.bin" for number in range(MANY)}
    for limit in (0, 700):
        listed = list(repo.pages("ben", limit))
        found = [lock["path"] for page in listed for lock in page]
        assert len(found) == MANY and set(found) == wanted, len(found)
        assert all(len(page) <= (limit or PAGE) for page in listed)
    verified = repo.verify("ben", limit=700)
    assert not verified["ours"] and {lock["path"] for lock in verified["theirs"]} == wanted
    assert len(json.loads(ben.lfs("locks", "--json"))) == MANY
    assert len(json.loads(ben.lfs("locks", "--json", "--limit", "7"))) == 7
    ben.write("art/9999.bin", "of ben")
    assert "art/9999.bin - anna" in ben.git("push", "origin", "HEAD:main", works=False)
    anna.write("art/9998.bin", "of anna")
    anna.git("push", "-q", "origin", "HEAD:main")


# --- by hand ---------------------------------------------------------------------------------

def answers(world):
    """201 with the lock, 409 with it for everyone after that, also at another front end; 403
    for another's lock without force; 404 for a lock that is gone."""
    repo = Repo(world.fronts[0])
    lock = expect(repo.lock("a/b.bin"), 201)["lock"]
    assert lock["path"] == "a/b.bin" and lock["owner"] == {"name": "anna"}, lock
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", lock["locked_at"])
    other = Repo(world.fronts[1], repo.name)
    for user in ("anna", "ben"):
        assert expect(other.lock("a/b.bin", user), 409)["lock"] == lock
    assert repo.list() == other.list("?path=a/b.bin") == [lock]
    assert other.list(f"?id={lock['id']}") == [lock]
    assert other.list("?path=a") == other.list("?id=%21") == []
    assert repo.verify() == {"ours": [lock], "theirs": []}
    assert other.verify("ben") == {"ours": [], "theirs": [lock]}
    assert expect(other.unlock(lock["id"], "ben"), 403)["lock"] == lock
    assert expect(other.unlock(lock["id"]), 200)["lock"] == lock
    expect(repo.unlock(lock["id"]), 404)
    expect(repo.unlock("%21"), 404)
    assert repo.list() == [] and repo.verify() == {"ours": [], "theirs": []}


def media_types(world):
    """Answers have the protocol's media type; that of a body does not matter."""
    repo = Repo(world.fronts[0])
    with contextlib.closing(world.fronts[0].connect()) as connection:
        for kind in ("application/vnd.git-lfs+json; charset=utf-8", "text/plain"):
            for status in (201, 409):
                expect(connection.ask("POST", f"/lfs/{repo.name}/locks",
                                      {**basic("anna"), "Content-Type": kind},
                                      json.dumps({"path": kind, "more": [{}]})), status)
                assert connection.headers["Content-Type"] == "application/vnd.git-lfs+json"


def lasts(world):
    """A lock lasts 366 days, or ttl_ms of the address; its lease is an ordinary one."""
    repo = Repo(world.fronts[0])
    expect(repo.lock("a"), 201)
    seen = repo.look("a")
    assert seen["remaining_ms"] > 365 * 86400000 and seen["kind"] == "lock", seen
    expect(repo.lock("b", query="?ttl_ms=60000"), 201)
    assert repo.look("b")["remaining_ms"] <= 60000
    expect(repo.lock("c", query="?ttl=1"), 400)


def nobody_else_has_the_lease(world):
    """No token that follows from what is public renews or releases the lease, nor does a note
    that looks like one of this protocol make a lease a lock of its owner."""
    repo = Repo(world.fronts[0])
    lock = expect(repo.lock("a"), 201)["lock"]
    holder = repo.look("a")["holders"][0]
    name = f"lfs/{repo.name}/a"
    where = "/v1/locks/" + name.replace("/", "%2F")
    for seed in (holder["note"], "anna", lock["id"]):
        for space in (name, f"{name}/"):
            inner = uuid.uuid5(uuid.UUID("520cd67e-8f1b-4d29-9a63-0e71b4d82fc5"), space)
            token = {"Lease-Token": str(uuid.uuid5(inner, seed))}
            expect(world.fronts[0].ask("DELETE", where, token), 410)
    expect(world.fronts[0].ask("DELETE", where, {"Lease-Token": holder["lease_id"]}), 410)
    assert repo.list() == [lock]
    expect(world.fronts[0].ask("PUT", f"/v1/locks/lfs%2F{repo.name}%2Fb",
                               {"Lease-Token": str(uuid.uuid4())},
                               {"note": holder["note"], "ttl_ms": 60000}), 201)
    theirs = repo.verify()["theirs"]
    assert [each["path"] for each in theirs] == ["b"], theirs
    assert theirs[0]["owner"]["name"] == f"{holder['note']} (not by Git LFS)", theirs
    expect(repo.unlock(theirs[0]["id"]), 403)
    expect(repo.unlock(theirs[0]["id"], force=True), 200)
    assert repo.list() == [lock]


def java_holders(world):
    """A lock that a Java client holds is another's lock, without a time, and can be forced; so
    can one of several readers."""
    repo = Repo(world.fronts[0])
    world.redis.command("HSET", f"lfs/{repo.name}/a", f"{uuid.uuid4()}:7", 1)
    world.redis.command("PEXPIRE", f"lfs/{repo.name}/a", 60000)
    lock = repo.verify()["theirs"][0]
    assert "locked_at" not in lock and "not by Git LFS" in lock["owner"]["name"], lock
    assert expect(repo.lock("a"), 409)["lock"]["id"] == lock["id"]
    expect(repo.unlock(lock["id"], force=True), 200)
    assert repo.list() == []
    for _ in range(2):  # readers, which no Git LFS is
        expect(world.fronts[0].ask("PUT", f"/v1/locks/lfs%2F{repo.name}%2Fa?kind=read",
                                   {"Lease-Token": str(uuid.uuid4())}), 201)
    expect(repo.unlock(lock["id"], force=True), 200)
    assert repo.list() == []
    world.redis.command("SADD", f"lfs/{repo.name}/s", "x")
    expect(repo.lock("s"), 409)
    expect(repo.unlock("cw"), 409)
    assert repo.list("?path=s") == []


def names(world):
    """Repositories share no lock, and a path has a limit; ids lead to paths of any letters."""
    one, two = Repo(world.fronts[0]), Repo(world.fronts[0])
    expect(one.lock("a"), 201)
    assert two.list() == []
    expect(two.lock("a", "ben"), 201)
    expect(Repo(world.fronts[0], f"{one.name}%2Fa").lock("b"), 400)
    repo = Repo(world.fronts[0])
    for path in ("日本/語 + %41?&#.bin", "-_~ {a}", "x" * 384, "é", "..", "/", "a//b", " "):
        lock = expect(repo.lock(path), 201)["lock"]
        assert repo.list(f"?id={lock['id']}") == [lock] and lock["path"] == path
        expect(repo.unlock(lock["id"]), 200)
    for path in ("", "x" * 385, "a\nb", "\0", 7, None):
        expect(repo.lock(path), 400)
    expect(Repo(world.fronts[0], "r" * 300).lock("x" * 300), 400)


def longest_name(world):
    """A repository whose name leaves no room for a path has no locks, also where the names in
    Redis are as long as can be."""
    front = world.place.front(world.redis, "--key-prefix", "p" * 256)
    for length in (507, 508):
        repo = Repo(front, "r" * length)
        assert repo.list() == [] and repo.ask("POST", "/verify", "anna", {})[0] == 200
        expect(repo.lock("a"), 400)
    expect(Repo(front, "r" * 509).ask("GET", "", "anna"), 400)
    front.stop()


def owners(world):
    """Without API tokens the user name of Basic is the owner, and a request without one is
    asked for it; a web page is not."""
    repo = Repo(world.fronts[0])
    with contextlib.closing(world.fronts[0].connect()) as connection:
        for headers, asks in (({}, True), ({"Authorization": "Bearer x"}, True),
                              (basic(""), True), (basic("u" * 65), True),
                              (basic("a\0b"), True),
                              ({"Sec-Fetch-Site": "same-origin"}, False)):
            for method, rest in (("POST", ""), ("GET", ""), ("POST", "/verify"),
                                 ("POST", "/YQ/unlock")):
                expect(connection.ask(method, f"/lfs/{repo.name}/locks{rest}", headers,
                                      {"path": "a"} if method == "POST" else None), 401)
                assert ("Basic" in (connection.headers["WWW-Authenticate"] or "")) == asks
    lock = expect(repo.lock("a", "u" * 64), 201)["lock"]
    expect(repo.unlock(lock["id"], "Ü"), 403)
    expect(repo.unlock(lock["id"], "u" * 64), 200)


def rights(world):
    """Rights are to the names below lfs/; a path alone may be allowed; `read` is for the list,
    `lock` for the rest."""
    repo = Repo(world.guarded, "art", BASIC)
    expect(repo.ask("GET", "", None), 401)
    expect(repo.lock("x", "nobody"), 401)
    expect(repo.lock("rights", "artist-a"), 201)
    expect(repo.lock("rights", "team-a"), 403)
    expect(repo.lock("x", "brief"), 403)
    outsider = Repo(world.guarded, "part", BASIC)  # has a right to part/free/ alone
    lock = expect(outsider.lock("free/a", "outsider"), 201)["lock"]
    expect(outsider.lock("a", "outsider"), 403)
    expect(outsider.lock("free", "outsider"), 403)
    assert outsider.list("?path=free/a", "outsider") == [lock]
    for query in ("", "?path=a", "?id=YQ"):
        expect(outsider.ask("GET", query, "outsider"), 403)
    expect(outsider.ask("POST", "/verify", "outsider", {}), 403)
    expect(outsider.unlock("YQ", "outsider"), 403)
    expect(outsider.unlock(lock["id"], "admin"), 403)
    expect(outsider.unlock(lock["id"], "admin", force=True), 200)
    lock = repo.list("?path=rights", "artist-b")[0]
    assert lock["owner"]["name"] == "artist-a"
    expect(repo.unlock(lock["id"], "artist-b", force=True), 403)
    expect(repo.unlock(lock["id"], "artist-a"), 200)


def refusals(world):
    """Bodies that are no request, and pages that there are not."""
    repo = Repo(world.fronts[0])
    for rest in ("", "/verify", "/YQ/unlock"):
        for body in ("", "[]", "{", '{"path":"a","path":"a"}'):
            expect(repo.ask("POST", rest, "anna", body), 400)
    for query in ("?cursor=x", "?limit=-1", "?limit=x", "?a=b", "?path="):
        expect(repo.ask("GET", query, "anna"), 400)
    expect(repo.ask("POST", "/verify", "anna", {"cursor": "x"}), 400)
    assert world.fronts[0].ask("DELETE", f"/lfs/{repo.name}/locks", basic("anna"))[0] == 405
    expect(repo.ask("GET", "?limit=0&refspec=refs/heads/main", "anna"), 200)


def one_of_many(world):
    """Of many users who lock one path at once, at two front ends, one gets it."""
    name = new_repo()
    users = [f"user-{number}" for number in range(20)]
    random.shuffle(users)
    with contextlib.ExitStack() as stack:
        asked = []
        for number, user in enumerate(users):
            connection = stack.enter_context(
                contextlib.closing(world.fronts[number % 2].connect())).connection
            connection.request("POST", f"/lfs/{name}/locks", json.dumps({"path": "a"}),
                               basic(user))
            asked.append((user, connection))
        statuses = {user: connection.getresponse().status for user, connection in asked}
    assert sorted(statuses.values()) == [201] + [409] * 19, statuses
    owner = next(user for user in users if statuses[user] == 201)
    assert Repo(world.fronts[0], name).list()[0]["owner"]["name"] == owner


def made_up_requests(world):
    """Whatever is sent is answered, soon, and with no 500."""
    def target(chance):
        pick = chance.random.choice(["", "", "", "/verify", "/YQ/unlock", "/{}/unlock"])
        return f"/lfs/{chance.name()}/locks{pick.format(chance.name())}{chance.query()}"
    made_up(world, ("POST", "POST", "GET"), target,
            lambda: {"path": uuid.uuid4().hex, "cursor": "", "limit": 9, "force": True},
            headers=basic("anna"))
