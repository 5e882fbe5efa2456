"""What a front end concludes from the replies of the nodes. Pure: replies in, decision out. The
cases for the product's code are made of these functions (cases.py).

`replies` has an entry for each node: None (no reply yet, or no connection), or a tuple that
begins with a word. `over`: the round is over, so no further reply counts."""
from typing import NamedTuple, Optional

from scenario import DRIFT, TTL


class Decision(NamedTuple):
    word: str
    token: int = 0
    until: int = 0               # the time until which the answer may rely on the lease
    undo: Optional[tuple] = None  # nodes whose votes are withdrawn; None: all
    mend: tuple = ()             # nodes that get the hold by a repair


WAIT = Decision("wait", undo=())


class Round(NamedTuple):
    """What the operation asked for."""
    number: int
    token: int
    sent: int
    last: int       # number of the last round that the operation may make
    weak: frozenset = frozenset()
    nodes: int = 3
    drift: int = DRIFT
    ttl: int = TTL

    @property
    def majority(self):
        return self.nodes // 2 + 1


def proposal(clocks, last):
    """A1: the token that a front end proposes. `clocks`: those of the nodes; `last`: the last
    token of the lock that the front end has seen."""
    return max(sorted(clocks)[len(clocks) // 2], last + 1)


def words(replies):
    return [reply[0] for reply in replies if reply]


def nodes_with(replies, *found):
    return tuple(i for i, reply in enumerate(replies) if reply and reply[0] in found)


def deadline(asked, now, left):
    begin = now if "validity from the reply" in asked.weak else asked.sent
    return begin + left - (0 if "validity without drift" in asked.weak else asked.drift)


def votes(asked, replies, now, over):
    """A4 to A9."""
    found, majority = words(replies), asked.majority
    accepted = nodes_with(replies, "accepted")
    if "spent" in found:
        return Decision("end", undo=accepted)
    if "tokens of nodes" in asked.weak:
        return votes_of_nodes(asked, replies, now)
    if len(accepted) >= majority:
        return granted(asked, now)
    held = [reply[1] for reply in replies if reply and reply[0] == "held"]
    for token in sorted(set(held)):
        own = len(accepted) if token == asked.token else 0
        if held.count(token) + own >= majority:
            return Decision("claim", token, undo=accepted if token != asked.token else ())
    if "votes added up" in asked.weak and accepted and len(accepted) + len(held) >= majority:
        return granted(asked, now)
    return hopeless(asked, replies, accepted) or (
        again(asked, replies, held, accepted) if over or None not in replies else WAIT)


def granted(asked, now):
    until = deadline(asked, now, asked.ttl)
    if now < until:
        return Decision("granted", asked.token, until, undo=())
    return Decision("late")


def hopeless(asked, replies, accepted):
    """A decision if no majority can vote for the lease any more."""
    found = words(replies)
    refused = nodes_with(replies, "busy", "lapsed", "quarantine", "unbound")
    if asked.nodes - len(refused) >= asked.majority:
        if "lapsed once" in asked.weak and "lapsed" in found:
            return Decision("end", undo=accepted)
        return None
    if "lapsed" in found:
        return Decision("end", undo=accepted)
    undo = () if "refused without withdrawal" in asked.weak else None
    if "unbound" in found:
        return Decision("unbound", undo=undo)
    if "busy" in found:
        return Decision("busy", undo=undo)
    return Decision("quarantine", undo=undo)


def again(asked, replies, held, accepted):
    """A7, A8: the next round, or that the outcome stays unknown."""
    if asked.number >= asked.last or len(words(replies)) < asked.majority:
        return exhausted(asked, replies, held)
    if held and min(held) < asked.token:
        if "younger stays" in asked.weak:
            return Decision("unknown")
        return Decision("vote", min(held))
    if held:
        return Decision("vote", asked.token)
    known = [reply[1] for reply in replies if reply and reply[0] in ("low", "clock")]
    if known and "low is refused" not in asked.weak:
        return Decision("vote", max(known) + 1)
    return exhausted(asked, replies, held)


def exhausted(asked, replies, held):
    """A9: a majority has replied, and no node has the lease by another attempt: only the token
    is open. The votes are withdrawn, and the request tries again."""
    reasons = nodes_with(replies, "busy") if "again behind the busy only" in asked.weak else \
        nodes_with(replies, "busy", "low", "clock")
    if held or not reasons or len(words(replies)) < asked.majority or \
            "one try" in asked.weak:
        return Decision("unknown")
    return Decision("split")


def votes_of_nodes(asked, replies, now):
    """Where nodes make the tokens: the highest one of a majority counts."""
    tokens = [reply[1] for reply in replies if reply and reply[0] == "accepted"]
    if len(tokens) < asked.majority:
        return Decision("unknown")
    if asked.weak & {"no write-back", "late write-back"}:
        return granted(asked._replace(token=max(tokens)), now)
    return Decision("write-back", max(tokens))


def claims(asked, replies, now, over):
    """A6: the M-th largest time that is left counts."""
    left = sorted((reply[1] for reply in replies if reply and reply[0] == "claimed"),
                  reverse=True)
    if len(left) < asked.majority:
        if over or len(words(replies)) - len(left) > asked.nodes - asked.majority:
            return Decision("unknown")
        return WAIT
    count = asked.ttl if "full time of old votes" in asked.weak else left[asked.majority - 1]
    until = deadline(asked, now, count)
    if now < until:
        return Decision("held", asked.token, until, mend=nodes_with(replies, "gone"))
    return Decision("late")


def renewals(asked, replies, now, over):
    """R1, R2. Nodes at which the lease lasts longer have marked it, and are asked again: all at
    once, so the others have their time."""
    held = [reply[1] for reply in replies if reply and reply[0] == "held"]
    both = held + [reply[1] for reply in replies if reply and reply[0] == "marked"]
    enough = 1 if "renewed at one node" in asked.weak else asked.majority
    if len(both) > len(held) and asked.number < asked.last:
        if not over and None in replies:
            return WAIT
        for token in sorted(set(both)):
            if both.count(token) >= asked.majority:
                return Decision("vote", token, undo=())
    for token in sorted(set(held)):
        if held.count(token) >= enough:
            until = deadline(asked, now, asked.ttl)
            if now >= until:
                return Decision("late")
            return Decision("renewed", token, until, undo=(),
                            mend=tuple(i for i, reply in enumerate(replies)
                                       if reply and reply not in (("held", token),
                                                                  ("marked", token))))
    gone = len(nodes_with(replies, "gone"))
    if gone > asked.nodes - asked.majority:
        return Decision("end", undo=())
    return Decision("unknown", undo=()) if over or None not in replies else WAIT


def releases(asked, replies, now, over):
    """D2: released, unless a majority knows that the lease had ended before. A missing reply
    is waited for where it decides."""
    done = words(replies)
    enough = 1 if "released at one node" in asked.weak else asked.majority
    if len(done) < enough:
        return Decision("unknown", undo=()) if over else WAIT
    missing = 0 if "missing replies not counted" in asked.weak else replies.count(None)
    held = done.count("released") + missing
    if done.count("released") < asked.majority <= held and not over:
        return WAIT
    return Decision("released" if held >= asked.majority else "ended", undo=())


def written(asked, replies, now, over):
    if words(replies).count("written") >= asked.majority:
        return granted(asked, now)
    return Decision("unknown") if over else WAIT


def ends(asked, replies, now, over):
    """E1: told when a majority has spent the lease."""
    if len(words(replies)) >= asked.majority:
        return Decision("lost", undo=())
    return Decision("unknown", undo=()) if over else WAIT


def forces(asked, replies, now, over):
    """O1: what was found is then spent at every node, by a release. Where no majority has freed
    the lock, the next round's token is above as many newer holds as are needed for one, not
    above those of a stray clock; or it is what the clocks allow."""
    found = words(replies)
    done = found.count("forced") + found.count("free")
    if done >= (1 if "forced at one node" in asked.weak else asked.majority):
        if "forced" not in found:
            return Decision("free", undo=())
        return Decision("forced" if "forced where found" in asked.weak else "spend", undo=())
    if not over and done + replies.count(None) >= asked.majority:
        return WAIT
    low = sorted(reply[1] for reply in replies if reply and reply[0] == "low")
    clocks = sorted((reply[1] for reply in replies if reply and reply[0] == "clock"),
                    reverse=True)
    more = asked.majority - done
    if asked.number >= asked.last or len(low) < more and not clocks:
        return Decision("unknown", undo=())
    if len(low) < more:
        return Decision("vote", clocks[len(clocks) // 2], undo=())
    return Decision("vote", low[more - 1], undo=())


def spends(asked, replies, now, over):
    if len(words(replies)) >= (1 if "forced at one node" in asked.weak else asked.majority):
        return Decision("forced", undo=())
    return Decision("unknown", undo=()) if over else WAIT


def looks(asked, replies, now, over):
    """O2, O4: locked if a majority holds with one token; free if that is impossible."""
    held = [reply[1] for reply in replies if reply and reply[0] == "held"]
    enough = 1 if "looked at one node" in asked.weak else asked.majority
    for token in sorted(set(held)):
        if held.count(token) >= asked.majority:
            return Decision("locked", token, undo=())
    others = len(words(replies)) - len(held)
    if others > asked.nodes - asked.majority or enough == 1 and others:
        return Decision("not-locked", undo=())
    return Decision("undecided", undo=()) if over or None not in replies else WAIT


def checks(asked, replies, now, over):
    """O3: 200 if a majority holds with the token; 409 if none can."""
    held = sum(1 for reply in replies if reply and reply == ("held", asked.token))
    others = len(words(replies)) - held
    one = "checked at one node" in asked.weak
    if held >= (1 if one else asked.majority):
        return Decision("current", asked.token, undo=())
    if others > (0 if one else asked.nodes - asked.majority):
        return Decision("stale", undo=())
    return Decision("unknown", undo=()) if over or None not in replies else WAIT


def keep_alives(asked, replies, now, over):
    """S1: open where a majority has moved the deadline."""
    found = words(replies)
    enough = 1 if "kept alive at one node" in asked.weak else asked.majority
    if found.count("open") >= enough:
        until = deadline(asked, now, asked.ttl)
        if now >= until:
            return Decision("late", undo=())
        return Decision("alive", 0, until, undo=(), mend=nodes_with(replies, "unknown"))
    refused = len(nodes_with(replies, "passed", "ended"))
    if refused > asked.nodes - asked.majority:
        return Decision("close", undo=())
    if refused + len(nodes_with(replies, "unknown")) > asked.nodes - asked.majority:
        return Decision("gone", undo=())
    return Decision("unknown", undo=()) if over or None not in replies else WAIT


def closings(asked, replies, now, over):
    if len(words(replies)) >= (1 if "closed at one node" in asked.weak else asked.majority):
        return Decision("closed", undo=())
    return Decision("unknown", undo=()) if over else WAIT


def due_sessions(asked, replies, now, over):
    """S2: passed at a majority: ended there if still passed. Open at a majority: other nodes
    get the M-th largest deadline."""
    left = sorted((reply[1] for reply in replies if reply and reply[0] == "open"), reverse=True)
    passed = len(nodes_with(replies, "passed", "ended"))
    if passed >= (1 if "due at one node" in asked.weak else asked.majority):
        return Decision("close" if "closed by an old look" in asked.weak else "shut", undo=())
    if len(left) >= asked.majority:
        until = asked.sent + left[asked.majority - 1] - asked.drift
        mend = nodes_with(replies, "passed", "unknown")
        return Decision("keep", 0, until, undo=(), mend=mend)
    return Decision("unknown", undo=()) if over or None not in replies else WAIT


def shuts(asked, replies, now, over):
    """S2: what a majority has ended is ended everywhere."""
    ended = words(replies).count("ended")
    if ended >= asked.majority or ended and "due at one node" in asked.weak:
        return Decision("close", undo=())
    return Decision("unknown", undo=()) if over or None not in replies else WAIT


CONCLUSIONS = {"vote": votes, "claim": claims, "write-back": written, "renew": renewals,
               "release": releases, "end": ends, "force": forces, "spend": spends,
               "look": looks, "check": checks, "keep": keep_alives, "close": closings,
               "due": due_sessions, "shut": shuts}


def conclude(phase, asked, replies, now, over):
    return CONCLUSIONS[phase](asked, replies, now, over)
