"""Scenarios of one exclusive lock at three nodes, and what becomes of weaker rules."""
from node import NOBODY
from scenario import DRIFT, TTL, Scenario, weak

A1, A2, B1, C1 = ("A1", "put", "A"), ("A2", "put", "A"), ("B1", "put", "B"), ("C1", "put", "C")
DELETE, RENEW, FORCE = ("DELETE A", "delete", "A"), ("PATCH A", "renew", "A"), \
    ("force A", "force", "A")
AGAIN = ("PATCH again", "renew", "A")
GET, CHECK = ("GET", "look", "A"), ("check A", "check", "A")

# Lease A holds at two nodes: granted to its client, or by a request whose front end died.
TWO = (("A", 1, (0, 1), True, NOBODY),)
ALL = (("A", 1, (0, 1, 2), True, NOBODY),)
GRANTED = dict(holds=TWO, granted=(("A", 1, TTL - DRIFT),))
WHOLE = dict(holds=ALL, granted=(("A", 1, TTL - DRIFT),))
UNANSWERED = dict(holds=TWO)
REPAIRED = dict(**GRANTED, repairs=(("A", 1, 2),))

# A repair of a node that holds the lease with an earlier token, of a vote of its own.
MIXED = dict(holds=(("A", 2, (0, 1), True, NOBODY), ("A", 1, (2,), True, NOBODY)),
             repairs=(("A", 2, 2),))
# Lease A blocks one node; the vote of B at another one has ended by time.
LATE = dict(holds=(("A", 1, (1,), True, NOBODY),), lapsed=(("B", 0, 2),), live="with a grant")

# A lease that holds at two nodes still, and a node whose clock is far behind.
STRAY = dict(holds=TWO, proposals="clock", skews=(5, 5, 0))

NODE_TOKENS = dict(proposals="lowest", skews=(0, 0, 2))
LATER = dict(**NODE_TOKENS, horizon=3)

SCENARIOS = (
    ("two clients, holds end by time", Scenario((A1, B1), horizon=2, give_ups=1)),
    ("two clients, a vote runs after its request has gone on",
     Scenario((A1, B1), horizon=1, strays=1, give_ups=1)),
    ("two clients, a script runs twice",
     Scenario((A1, B1), horizon=1, duplicates=1, give_ups=1)),
    ("three clients at once", Scenario((A1, B1, C1), strays=1)),
    ("a request, its repetition at another front end, a rival",
     Scenario((A1, A2, B1), give_ups=1)),
    ("a grant whose front end died, its repetition, a rival",
     Scenario((A2, B1), horizon=2, **UNANSWERED)),
    ("PUT, its DELETE at the same time, a rival", Scenario((A1, DELETE, B1), strays=1)),
    ("PUT, DELETE, PUT again", Scenario((A1, DELETE, A2))),
    ("a repair under way, a renewal, a rival",
     Scenario((RENEW, B1), horizon=2, **REPAIRED)),
    ("a renewal, its repair, a rival, a node that loses its data",
     Scenario((RENEW, B1), horizon=2, losses=1, proposals="clock", **GRANTED)),
    ("a node that loses its data, clocks that differ, two rivals",
     Scenario((B1, C1), horizon=2, losses=1, proposals="clock", skews=(0, 0, 1), rounds=1,
              **GRANTED)),
    ("a release under way, a clock that is far off, a request that waits",
     Scenario((DELETE, B1), live="with a grant", **STRAY)),
    ("a release, a renewal, a node that returns with old data",
     Scenario((DELETE, RENEW), horizon=2, reverts=1, proposals="clock", **WHOLE)),
    ("a release, a repetition, a node that returns with old data",
     Scenario((DELETE, A2), horizon=2, reverts=1, proposals="clock", **WHOLE)),
    ("force-unlock, a renewal, a node that loses its data",
     Scenario((FORCE, RENEW), horizon=1, losses=1, proposals="clock", **GRANTED)),
    ("force-unlock, a rival", Scenario((FORCE, B1), horizon=1, proposals="higher", **GRANTED)),
    ("force-unlock that reaches a node late, two rivals",
     Scenario((FORCE, B1, C1), proposals="each")),
    ("force-unlock by a clock that is behind",
     Scenario((FORCE, B1), proposals="each", **GRANTED)),
    ("force-unlock, a repetition, a node that loses its data",
     Scenario((FORCE, A2), horizon=1, losses=1, proposals="clock", **GRANTED)),
    ("GET, a renewal, a release",
     Scenario((GET, RENEW, DELETE), horizon=1, **GRANTED)),
    ("a token is checked, its lease ends, a rival",
     Scenario((CHECK, DELETE, B1), horizon=0, **GRANTED)),
    ("restarts, one after the other, with renewals and repairs",
     Scenario((RENEW, AGAIN, ("PATCH 3", "renew", "A")), losses=2, spaced=True, **WHOLE)),
    ("a repair of a hold with another token, a restart, a repetition",
     Scenario((A2,), losses=1, spaced=True, live="with a grant", **MIXED)),
    ("a repair of a hold with another token, a renewal, a rival",
     Scenario((RENEW, B1), horizon=2, granted=(("A", 2, TTL - DRIFT),), **MIXED)),
    ("a vote ends by time before it is withdrawn, its request tries again",
     Scenario((B1,), **LATE)),
    ("a request gives up, its repetition, holds end by time",
     Scenario((A1, A2), horizon=2, give_ups=1)),
    ("tokens of the nodes, written back in a second round",
     weak("tokens of nodes", operations=(A1, DELETE, B1), **NODE_TOKENS)),
)

# (rule of the design, what the weaker variant does, scenario)
VARIANTS = (
    ("A1", "nodes make the tokens, the highest is granted, nothing is written back",
     weak("tokens of nodes", "no write-back", operations=(A1, B1), **LATER)),
    ("A1", "the client is answered before the token is written back",
     weak("tokens of nodes", "late write-back", operations=(A1, B1), **LATER)),
    ("A1", "a token is written back to any majority, also where the lease does not hold",
     weak("tokens of nodes", "blind write-back", operations=(A1, DELETE, B1), **NODE_TOKENS)),
    ("A1", "tokens by counters alone, and a node loses its data",
     weak(operations=(A1, B1), proposals="lowest", horizon=3, losses=1)),
    ("A2", "a node accepts a token that is not above its counter",
     weak("any token", operations=(A1, DELETE, B1), proposals="lowest")),
    ("A2", "a node accepts a token that is far behind its clock",
     weak("any clock", operations=(A1, B1), proposals="clock", skews=(0, 0, -3), horizon=3,
          losses=1)),
    ("A2", "a vote revives a spent lease",
     weak("spent forgotten", operations=(DELETE, A2), **GRANTED)),
    ("A2", "a node forgets that the hold of a lease ended by time",
     weak("lapsed forgotten", operations=(A2,), proposals="higher", horizon=3, **GRANTED)),
    ("A2", "a vote is moved to a token below the counter before it",
     weak("move below the counter", operations=(A2,), proposals=(3,), horizon=2, rounds=3,
          holds=(("A", 1, (0,), False, NOBODY),), counters=(1, 2, 2), granted=(("B", 2, 0),))),
    ("A3", "a restarted node votes at once",
     weak("restart without quarantine", operations=(A1, B1), proposals="clock", losses=1,
          horizon=1)),
    ("A4", "validity is counted from the reply",
     weak("validity from the reply", operations=(A1, B1), horizon=2)),
    ("A4", "validity without drift", weak("validity without drift", operations=(A1, B1),
                                          horizon=2)),
    ("A5", "410 by the word of one node", weak("410 at once", operations=(A1, DELETE, A2))),
    ("A6", "a repetition counts its full time for older votes",
     weak("full time of old votes", operations=(A2, B1), horizon=2, **UNANSWERED)),
    ("A6", "a repetition adds up votes for different tokens",
     weak("votes added up", operations=(A1, A2, B1))),
    ("A6", "a repetition claims a vote with any token",
     weak("claim of any token", operations=(A1, A2, B1), give_ups=1)),
    ("A6", "a repetition relies on votes without a claim",
     weak("no claim", operations=(A1, A2, B1), give_ups=1)),
    ("A7", "the younger request does not join the older, and a node is down",
     weak("younger stays", operations=(A1, A2), proposals="each", down=1, live="with a grant")),
    ("A8", "a token that is too low is no reason for another round",
     weak("low is refused", operations=(A1,), counters=(5, 5, 5), live="with a grant")),
    ("A9", "a request that is refused leaves its votes",
     weak("refused without withdrawal", operations=(A1, B1), give_ups=2)),
    ("A9", "a request beside a clock that is far off gives up after its rounds of votes",
     weak("one try", operations=(DELETE, B1), live="with a grant", **STRAY)),
    ("A9", "such a request tries again only if a node is busy",
     weak("again behind the busy only", operations=(DELETE, B1), live="with a grant", **STRAY)),
    ("A10", "a withdrawal goes by the lease, not by the attempt",
     weak("withdrawal by lease", operations=(A1, A2, B1), give_ups=1)),
    ("A10", "a withdrawal leaves the mark of its vote that ended by time",
     weak("mark of a withdrawn vote", operations=(B1,), **LATE)),
    ("D1", "a release is repeated for longer than the spent token is remembered",
     weak("release after the memory", operations=(A1, B1), releases=(("A", 2),))),
    ("D1", "DELETE is answered after one node",
     weak("released at one node", operations=(A1, DELETE, A2))),
    ("D1", "DELETE spends no lease that the node has not seen",
     weak("unseen release spends nothing", operations=(A1, DELETE, A2), strays=1)),
    ("D2", "DELETE does not count nodes without a reply",
     weak("missing replies not counted", operations=(DELETE,), **GRANTED)),
    ("E1", "a lease that lost its majority is released at once",
     weak("lost is released", operations=(RENEW, B1), proposals="higher", losses=1, horizon=1,
          **GRANTED)),
    ("R1", "a renewal counts after one node",
     weak("renewed at one node", operations=(RENEW, B1), proposals="clock", losses=1, horizon=2,
          **GRANTED)),
    ("R1", "a renewal renews a spent lease",
     weak("renewal of the spent", operations=(DELETE, A2, RENEW), **WHOLE)),
    ("R2", "a repair without deadline", weak("late repair", operations=(RENEW, B1), horizon=2,
                                             **REPAIRED)),
    ("R2", "nothing is repaired",
     weak("no repair", operations=(RENEW, AGAIN), losses=2, spaced=True, **WHOLE)),
    ("R2", "a repair leaves a hold with another token",
     weak("another token stays", operations=(A2,), losses=1, spaced=True, live="with a grant",
          **MIXED)),
    ("O1", "force-unlock is answered after one node",
     weak("forced at one node", operations=(FORCE, A2), **GRANTED)),
    ("O1", "force-unlock spends a lease only where the lease held",
     weak("forced where found", operations=(FORCE, A2), horizon=2, losses=1,
          proposals="clock", **GRANTED)),
    ("O1", "force-unlock frees what a node holds when it arrives",
     weak("forced whatever the token", operations=(FORCE, B1, C1), proposals="each")),
    ("O1", "force-unlock does not raise the counter",
     weak("force leaves the counter", operations=(C1, B1, FORCE), proposals="each")),
    ("O2", "GET believes one node", weak("looked at one node", operations=(GET,), **GRANTED)),
    ("O3", "a token is checked at one node",
     weak("checked at one node", operations=(CHECK,), **GRANTED)),
    ("O4", "a listing shows what its first node holds",
     weak("looked at one node", operations=(("list", "look", "A"),), **GRANTED)),
    ("Q1", "a node that returned with old data counts for renewals",
     weak("restarted nodes count", operations=(DELETE, RENEW), horizon=1, reverts=1, **WHOLE)),
)
