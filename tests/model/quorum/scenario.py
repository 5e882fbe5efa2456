"""A scenario: the operations that front ends run, the faults that may befall them, and the
rules that a weaker variant of the protocol leaves out."""
from typing import NamedTuple

# Ticks. A hold ends at an age of TTL - DRIFT at the earliest and TTL + DRIFT at the latest.
TTL, DRIFT = 2, 1
LONG = 4  # the time of a renewal that has one of its own
# How long a restarted node gives no votes: no less than the time that an answer gives to a
# lease, and more than tolerance and clocks let tokens differ.
QUARANTINE = TTL
# An ended lease is remembered for so long; counted from the sending of the operation that ended
# the lease, because a node may restart between its reply and the answer.
WINDOW = QUARANTINE
# A node refuses a token that is further off its clock.
TOLERANCE = 1


class Scenario(NamedTuple):
    operations: tuple = ()  # (name, kind, lease); kinds are rows of KINDS in world.py
    nodes: int = 3
    down: int = 0           # of them: nodes that never answer
    horizon: int = 0        # ticks
    losses: int = 0         # restarts without data
    reverts: int = 0        # restarts with data of the beginning: later writes are lost
    spaced: bool = False    # a node restarts only when its predecessor is whole again
    duplicates: int = 0     # scripts that run a second time, later
    strays: int = 0         # scripts that run after their operation has gone on without them
    give_ups: int = 0       # operations that withdraw: hang-up, deadline
    proposals: str = "any"  # tokens: "any" of two, whatever the clocks say; the "lowest" or the
                            # "higher" of them; "clock": what the nodes' clocks give
    rounds: int = 2         # of votes, for each operation
    skews: tuple = ()       # of the nodes' clocks; () means that all are right
    holds: tuple = ()       # at the beginning: (lease, token, nodes, claimed, attempt)
    since: int = 0          # of these holds: those of a longer lease end so much later
    in_turn: bool = False   # a client sends the requests for a lease one after the other,
                            # each when the one before was answered
    counters: tuple = ()    # at the beginning, of the nodes
    granted: tuple = ()     # before the beginning: (lease, token, until), as answered
    repairs: tuple = ()     # (lease, token, node): repairs under way at the beginning
    releases: tuple = ()    # (lease, node): releases of an earlier lease with the token, which
                            # a front end sends for longer than the end is remembered
    lapsed: tuple = ()      # (lease, operation, node): votes that have ended by time, and that
                            # their request withdraws at the beginning
    readers: frozenset = frozenset()  # leases that read; all others exclude
    session: tuple = ()     # at the beginning, its state at each node; (): there is none
    bound: frozenset = frozenset()    # leases of the session
    live: str = ""          # a word: an answer with this word stays possible until it is given
    weak: frozenset = frozenset()

    @property
    def majority(self):
        return self.nodes // 2 + 1


def weak(*rules, **fields):
    return Scenario(weak=frozenset(rules), **fields)
