"""Scenarios of a read/write lock: readers share it, a writer excludes all."""
from locks import DELETE
from node import NOBODY
from scenario import DRIFT, TTL, Scenario, weak

# R, S and T read, W writes.
R1, R2, S1, T1 = ("R1", "put", "R"), ("R2", "put", "R"), ("S1", "put", "S"), ("T1", "put", "T")
W1, RENEW = ("W1", "put", "W"), ("PATCH R", "renew", "R")
READERS = dict(readers=frozenset("RST"))
HELD = dict(holds=(("R", 1, (0, 1), True, NOBODY),), granted=(("R", 1, TTL - DRIFT),),
            **READERS)
REPAIRED = dict(**HELD, repairs=(("R", 1, 2),))
# A request for R reached one node; its front end died.
JOINS = dict(holds=(("R", 1, (0,), False, NOBODY),), **READERS)

SCENARIOS = (
    ("two readers and a writer", Scenario((R1, S1, W1), **READERS)),
    ("two readers, one gives up, a late vote",
     Scenario((R1, S1), give_ups=1, strays=1, **READERS)),
    ("a reader and a writer, holds end by time",
     Scenario((R1, W1), horizon=2, give_ups=1, **READERS)),
    ("a reader, its repetition, another reader",
     Scenario((R2, S1), proposals="each", rounds=3, give_ups=1, **JOINS)),
    ("a reader is repaired, another reader begins, then a writer",
     Scenario((RENEW, S1, W1), proposals="higher", **REPAIRED)),
)

VARIANTS = (
    ("A2", "a reader needs no token above those of other readers",
     weak("readers share a token", operations=(R1, S1), proposals="lowest", **READERS)),
    ("A2", "a vote that moves to an older token sets the counter, whatever it is by now",
     weak("moved counter", operations=(R2, S1, T1), proposals="each", rounds=3, **JOINS)),
    ("A10", "a withdrawal after a move sets the counter to what it was before the first vote",
     weak("was of the first vote", operations=(R1, S1, T1), proposals="each", give_ups=1,
          **READERS)),
    ("A10", "a withdrawal sets the counter back, whatever it is by now",
     weak("counter undone blindly", operations=(R1, S1, T1), proposals="each", give_ups=1,
          **READERS)),
    ("R2", "a repair sets the counter to its own token",
     weak("repair lowers the counter", operations=(RENEW, S1, T1), proposals=(2,), **REPAIRED)),
)
