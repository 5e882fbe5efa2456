"""Scenarios of a session and a lease of it at three nodes (S1 to S4)."""
from locks import B1
from node import NOBODY
from scenario import DRIFT, TTL, Scenario, weak

A1, A2, RENEW = ("A1", "put", "A"), ("A2", "put", "A"), ("watchdog renews A", "renew", "A")
KEEP, KEEP_2 = ("keep-alive", "keep", "A"), ("keep-alive 2", "keep", "A")
CLOSE, EXPIRE = ("DELETE session", "close", "A"), ("watchdog looks", "expire", "A")
EXPIRE_2 = ("watchdog 2 looks", "expire", "A")
OPEN = dict(session=("open",) * 3, bound=frozenset("A"))
# At the second node the deadline has passed a little early.
DUE = dict(session=("open", "passed", "open"), bound=frozenset("A"))
HELD = dict(holds=(("A", 1, (0, 1, 2), True, NOBODY),), granted=(("A", 1, TTL - DRIFT),),
            **OPEN)

SCENARIOS = (
    ("a lease of a session, the end of the session, a rival",
     Scenario((A1, CLOSE, B1), **OPEN)),
    ("a lease of a session, the end, a repetition",
     Scenario((A1, CLOSE, A2), strays=1, proposals="lowest", **OPEN)),
    ("a keep-alive, a watchdog, a deadline", Scenario((KEEP, EXPIRE), horizon=3, **OPEN)),
    ("a keep-alive, two watchdogs", Scenario((KEEP, EXPIRE, EXPIRE_2), horizon=1, **DUE)),
    ("a keep-alive, a watchdog, a node that loses its data",
     Scenario((KEEP, EXPIRE), horizon=2, losses=1, **OPEN)),
    ("a keep-alive, the end, another keep-alive, a node that loses its data",
     Scenario((KEEP, CLOSE, KEEP_2), losses=1, **OPEN)),
    ("a session that expires with its lease, a rival",
     Scenario((EXPIRE, B1), horizon=2, proposals="higher", **HELD)),
    ("the watchdog renews, the session ends, a rival",
     Scenario((RENEW, CLOSE, B1), horizon=1, proposals="higher", **HELD)),
    ("the end of a session, a lost node, a late request",
     Scenario((CLOSE, A1), horizon=1, losses=1, proposals="clock", **OPEN)),
    ("restarts, one after the other, with keep-alives and repairs",
     Scenario((KEEP, KEEP_2, ("keep-alive 3", "keep", "A")), losses=2, spaced=True, **OPEN)),
)

VARIANTS = (
    ("S1", "a vote is cast where the bind was refused",
     weak("vote without bind", operations=(CLOSE, A1), strays=1, **OPEN)),
    ("S1", "a keep-alive counts after one node",
     weak("kept alive at one node", operations=(KEEP, EXPIRE), horizon=3, **OPEN)),
    ("S1", "the end of a session is answered after one node",
     weak("closed at one node", operations=(CLOSE, A1), **OPEN)),
    ("S1", "the end of a session spends no lease",
     weak("end spends nothing", "vote without bind", operations=(A1, CLOSE, A2), strays=1,
          proposals="lowest", **OPEN)),
    ("S2", "a session that is due at one node is ended",
     weak("due at one node", operations=(KEEP, EXPIRE), horizon=3, **OPEN)),
    ("S2", "a session is ended everywhere by what a look found before",
     weak("closed by an old look", operations=(KEEP, EXPIRE, EXPIRE_2), horizon=1, **DUE)),
    ("S3", "a session is repaired over its tombstone",
     weak("repair over a tombstone", operations=(KEEP, CLOSE, KEEP_2), losses=1, **OPEN)),
    ("S3", "no tombstone where the session was unknown",
     weak("no tombstone of the unknown", operations=(KEEP, CLOSE, KEEP_2), losses=1, **OPEN)),
    ("S4", "a session is not repaired",
     weak("no repair", operations=(KEEP, KEEP_2), losses=2, spaced=True, **OPEN)),
)
