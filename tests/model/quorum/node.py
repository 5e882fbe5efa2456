"""A node: one Redis master that knows nothing of the others. Its state for one lock and one
session, and the scripts that run there, each in one step."""
from typing import NamedTuple, Optional

from scenario import DRIFT, QUARANTINE, TOLERANCE, TTL

NOBODY = -1
# Scripts that a front end sends until each node has confirmed them.
REPEATED = ("withdraw", "release", "end", "close", "force")
SENT = ("sent",)  # in the place of a reply: the script has not run yet


class Hold(NamedTuple):
    lease: str
    token: int
    attempt: int   # the operation whose vote it is
    round: int
    was: int       # the counter before the vote
    since: int
    claimed: bool  # a client may rely on it: never withdrawn, never moved
    mark: int = NOBODY  # the renewal that is to make it shorter, if nothing comes between


class Session(NamedTuple):
    state: str     # "open", "passed" (its deadline), "ended", "unknown"
    since: int = 0


class Node(NamedTuple):
    clock: int
    votes_from: int      # the end of its quarantine
    restarted: bool      # its data are those of before; no repair has confirmed its holds
    counter: int
    holds: tuple
    spent: frozenset
    lapsed: frozenset    # (lease, operation) of holds that ended here by time; NOBODY: claimed
    session: Optional[Session]
    noted: frozenset     # leases that are bound to the session here
    replies: tuple       # of each operation: None, SENT, or the reply
    late: tuple          # scripts that may still run; nobody awaits their replies


class Script(NamedTuple):
    name: str
    at: int              # the operation that sends it
    first: int = 0       # a round, or a token
    second: int = 0      # a token, a deadline, or the time of a renewal


def hold_of(node, lease):
    for hold in node.holds:
        if hold.lease == lease:
            return hold
    return None


def without(node, lease):
    return tuple(hold for hold in node.holds if hold.lease != lease)


def with_hold(node, hold):
    return tuple(sorted(without(node, hold.lease) + (hold,)))


def reads(how, lease):
    return lease == "=" or lease in how.readers


def has_lapsed(node, lease):
    return any(name == lease for name, _ in node.lapsed)


def blockers(how, node, lease):
    """The holds that exclude a new hold of the lease; readers share."""
    return [hold for hold in node.holds if hold.lease != lease
            and not (reads(how, lease) and reads(how, hold.lease))]


def is_bound(how, node, lease):
    return lease not in how.bound or node.session.state == "open"


def is_behind(how, node, now, token):
    return how.proposals == "clock" and "any clock" not in how.weak and \
        token < now + node.clock - TOLERANCE


def is_ahead(how, node, now, token, last):
    """Ahead of the node's clock, and of the last token by more than a moment."""
    return how.proposals == "clock" and "any clock" not in how.weak and \
        token > max(now + node.clock + TOLERANCE, last + 1)


# -- scripts: (how, node, now, script, lease) -> (node, reply)

def vote(how, node, now, script, lease):
    round_, token = script.first, script.second
    if now < node.votes_from and "restart without quarantine" not in how.weak:
        return node, ("quarantine",)
    if not is_bound(how, node, lease) and "vote without bind" not in how.weak:
        return node, ("unbound",)
    if lease in how.bound and node.session.state == "open":
        node = node._replace(noted=node.noted | {lease})
    if lease in node.spent and "spent forgotten" not in how.weak:
        return node, ("spent",)
    own = hold_of(node, lease)
    if own:
        if own.attempt != script.at or own.claimed or round_ < own.round:
            if "held as accepted" in how.weak:
                return node, ("accepted", token)
            return node, ("held", own.token)
        if round_ == own.round:
            return node, ("accepted", own.token)
        return move(how, node, now, own, round_, token)
    if has_lapsed(node, lease) and "lapsed forgotten" not in how.weak:
        return node, ("lapsed",)
    others = blockers(how, node, lease)
    if others:
        return node, ("busy", others[0].lease)
    if "tokens of nodes" in how.weak:
        token = max(node.counter + 1, now + node.clock)
    elif token <= node.counter and "any token" not in how.weak:
        if not (node.holds and "readers share a token" in how.weak):
            return node, ("low", node.counter)
    elif is_behind(how, node, now, token):
        return node, ("clock", now + node.clock - TOLERANCE - 1)
    elif is_ahead(how, node, now, token, node.counter):
        return node, ("clock", now + node.clock - 1)
    hold = Hold(lease, token, script.at, round_, node.counter, now, False)
    return node._replace(holds=with_hold(node, hold), counter=token), ("accepted", token)


def move(how, node, now, own, round_, token):
    """The attempt moves its own vote to another token: above the counter before the vote or,
    where another reader's vote has raised the counter since, above the counter as it is now. In
    that case a withdrawal leaves the counter at the token of the other reader."""
    counter, was = token, own.was
    if node.counter != own.token and "moved counter" not in how.weak:
        if token <= node.counter:
            return node, ("low", node.counter)
        was = was if "was of the first vote" in how.weak else node.counter
    if token <= own.was and "move below the counter" not in how.weak:
        return node, ("low", own.was)
    if is_ahead(how, node, now, token, was):
        return node, ("clock", now + node.clock - 1)
    moved = own._replace(token=token, round=round_, was=was, since=now)
    return node._replace(holds=with_hold(node, moved), counter=counter), ("accepted", token)


def claim(how, node, now, script, lease):
    own = hold_of(node, lease)
    if not own or own.token != script.first and "claim of any token" not in how.weak:
        return node, ("gone",)
    if "no claim" not in how.weak:
        mark = own.mark if "a claim leaves the mark" in how.weak else NOBODY
        node = node._replace(holds=with_hold(node, own._replace(claimed=True, mark=mark)))
    return node, ("claimed", own.since + TTL - now)


def withdraw(how, node, now, script, lease):
    """Undoes a vote that no client was answered for, and the counter with it; of one that has
    ended by time the mark goes."""
    own = hold_of(node, lease)
    if not own:
        if "mark of a withdrawn vote" in how.weak:
            return node, None
        return node._replace(lapsed=node.lapsed - {(lease, script.at)}), None
    if own.claimed:
        return node, None
    if own.attempt != script.at and "withdrawal by lease" not in how.weak:
        return node, None
    counter = node.counter
    if counter == own.token or "counter undone blindly" in how.weak:
        counter = own.was
    return node._replace(holds=without(node, lease), counter=counter), None


def release(how, node, now, script, lease):
    held = hold_of(node, lease)
    spent = node.spent | {lease}
    if not held and "unseen release spends nothing" in how.weak:
        spent = node.spent
    return node._replace(holds=without(node, lease), spent=spent), \
        ("released" if held else "ended",)


def end(how, node, now, script, lease):
    """Spends a lease that lost its majority. A hold that a client may count on lasts until its
    time is over."""
    own, holds = hold_of(node, lease), node.holds
    if own and (own.attempt == script.at and not own.claimed
                or "lost is released" in how.weak):
        holds = without(node, lease)
    return node._replace(holds=holds, spent=node.spent | {lease}), ("ended",)


def renew(how, node, now, script, lease):
    """The hold lasts for the time of the renewal from now on. Where it lasts longer it is only
    marked; the renewal comes again when its front end knows that, and makes it shorter if the
    mark is still there, so no later renewal has come between."""
    own = hold_of(node, lease)
    if not own or lease in node.spent and "renewal of the spent" not in how.weak:
        return node, ("gone",)
    if node.restarted and "restarted nodes count" not in how.weak:
        return node, ("restarted",)
    claimed = own.claimed or "renewal without claim" not in how.weak
    since, mark = now + (script.second or TTL) - TTL, NOBODY
    if "ordered by clocks" in how.weak:  # the clocks of the front ends, which differ
        mark = max(own.mark, -script.at)
        since = since if -script.at >= own.mark else max(since, own.since)
    elif since < own.since and own.mark != script.at and "shortened at once" not in how.weak:
        marked = own._replace(claimed=claimed, mark=script.at)
        return node._replace(holds=with_hold(node, marked)), ("marked", own.token)
    elif "a renewal leaves the mark" in how.weak and own.mark != script.at:
        mark = own.mark
    renewed = own._replace(since=since, claimed=claimed, mark=mark)
    return node._replace(holds=with_hold(node, renewed)), ("held", own.token)


def visit(how, node, now, script, lease):
    """A renewal by the watchdog, which shortens nothing and tells its client nothing."""
    own = hold_of(node, lease)
    if not own or lease in node.spent:
        return node, ("gone",)
    if node.restarted:
        return node, ("restarted",)
    renewed = own._replace(since=max(now, own.since), claimed=True)
    return node._replace(holds=with_hold(node, renewed)), ("held", own.token)


def repair(how, node, now, script, lease):
    """Gives a node the hold that it lacks, or holds with another token, as long as the renewal
    that found out is valid."""
    token, deadline = script.first, script.second
    own = hold_of(node, lease)
    if lease in node.spent and "repair of the spent" not in how.weak:
        return node, None
    if now >= deadline and "late repair" not in how.weak:
        return node, None
    if own:
        is_own = own.token == token
        # Its old data are confirmed, or a vote that no majority has joined gets the token.
        if node.restarted == is_own and (is_own or "another token stays" not in how.weak):
            own = own._replace(token=token, attempt=NOBODY, since=now, claimed=True,
                               mark=NOBODY)
            node = node._replace(restarted=False, counter=max(token, node.counter),
                                 holds=with_hold(node, own))
        return node, None
    if blockers(how, node, lease):
        return node, None
    if not is_bound(how, node, lease):
        return node, None
    claimed = "unclaimed repair" not in how.weak
    hold = Hold(lease, token, NOBODY if claimed else script.at, 0, node.counter, now, claimed)
    counter = token if "repair lowers the counter" in how.weak else max(token, node.counter)
    return node._replace(holds=with_hold(node, hold), counter=counter,
                         lapsed=frozenset(mark for mark in node.lapsed if mark[0] != lease),
                         restarted=False,
                         noted=node.noted | how.bound & {lease}), None


def write_back(how, node, now, script, lease):
    """Where nodes make the tokens: writes the highest one of a majority to this node."""
    own = hold_of(node, lease)
    raised = max(node.counter, script.first)
    if own and own.attempt == script.at:
        hold = own._replace(token=script.first)
        return node._replace(holds=with_hold(node, hold), counter=raised), ("written",)
    if "blind write-back" in how.weak:
        return node._replace(counter=raised), ("written",)
    return node, ("gone",)


def force(how, node, now, script, lease):
    """Frees the lock of all holds, or of none if one of them is above the token of the
    force-unlock. The counter gets that token: a lease that is granted after the answer is above
    it, and a script that runs late leaves such a lease alone. Only a token that the node's
    clock allows: no later lease could get one from the other nodes."""
    newest = max([hold.token for hold in node.holds] or [0])
    if newest > script.first and "forced whatever the token" not in how.weak:
        return node, ("low", newest)
    if is_ahead(how, node, now, script.first, node.counter):
        return node, ("clock", now + node.clock - 1)
    if "force leaves the counter" not in how.weak:
        node = node._replace(counter=max(node.counter, script.first))
    if not node.holds:
        return node, ("free",)
    ended = {hold.lease for hold in node.holds}
    return node._replace(holds=(), spent=node.spent | ended), ("forced",)


def look(how, node, now, script, lease):
    own = hold_of(node, lease)
    if own and node.restarted and "restarted nodes count" not in how.weak:
        return node, ("restarted",)
    if own:
        return node, ("held", own.token)
    return node, ("other" if node.holds else "free",)


def keep(how, node, now, script, lease):
    state = node.session.state
    if state == "open" or state == "passed" and "keep-alive after the deadline" in how.weak:
        return node._replace(session=Session("open", now)), ("open",)
    return node, (state,)


def close(how, node, now, script, lease):
    """Ends the session here: its leases are released and spent. The tombstone stands also where
    the session was unknown."""
    if node.session.state == "unknown" and "no tombstone of the unknown" in how.weak:
        return node, ("ended",)
    holds = tuple(hold for hold in node.holds if hold.lease not in node.noted)
    spent = node.spent if "end spends nothing" in how.weak else node.spent | node.noted
    return node._replace(session=Session("ended"), holds=holds, spent=spent,
                         noted=frozenset()), ("ended",)


def due(how, node, now, script, lease):
    session = node.session
    if session.state == "open":
        return node, ("open", session.since + TTL - now)
    return node, (session.state,)


def shut(how, node, now, script, lease):
    """The end of a session for its deadline: only where the deadline has passed."""
    if node.session.state in ("passed", "ended"):
        return close(how, node, now, script, lease)
    return node, (node.session.state,)


def restore(how, node, now, script, lease):
    """Gives a node the session, or its later deadline."""
    state = node.session.state
    if state == "ended" and "repair over a tombstone" not in how.weak:
        return node, None
    if now >= script.second and "late session repair" not in how.weak:
        return node, None
    since = script.second - TTL
    if state == "open" and node.session.since >= since:
        return node, None
    return node._replace(session=Session("open", since)), None


SCRIPTS = {"vote": vote, "claim": claim, "withdraw": withdraw, "release": release, "end": end,
           "renew": renew, "visit": visit, "repair": repair, "write-back": write_back,
           "force": force, "look": look, "keep": keep, "close": close, "due": due,
           "shut": shut, "restore": restore}


def run(how, node, now, script, lease):
    return SCRIPTS[script.name](how, node, now, script, lease)


# -- what else befalls a node

def may_end(hold, now):
    return now >= hold.since + TTL - DRIFT


def must_end(hold, now):
    return now >= hold.since + TTL + DRIFT


def lapse(node, hold):
    mark = hold.lease, NOBODY if hold.claimed else hold.attempt
    return node._replace(holds=without(node, hold.lease), lapsed=node.lapsed | {mark})


def restart(node, now, data=None):
    """Comes back as another process: without data, or with those of an earlier time. What was
    sent to the process before is lost, except what is repeated until it is confirmed. Its
    replies count no more: a round is over before the node is back."""
    replies = (None,) * len(node.replies)
    late = tuple(script for script in node.late if script.name in REPEATED)
    node = node._replace(votes_from=now + QUARANTINE, replies=replies, late=late)
    if data is None:
        unknown = Session("unknown") if node.session else None
        return node._replace(restarted=False, counter=0, holds=(), spent=frozenset(),
                             lapsed=frozenset(), session=unknown, noted=frozenset())
    return node._replace(restarted=True, counter=data.counter, holds=data.holds,
                         spent=data.spent, lapsed=data.lapsed, session=data.session,
                         noted=data.noted)
