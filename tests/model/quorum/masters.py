"""Scenarios of five nodes, three of which are a majority: bounded in time and faults."""
from locks import A1, A2, B1, DELETE, RENEW
from node import NOBODY
from scenario import DRIFT, TTL, Scenario, weak

FIVE = dict(nodes=5)
GRANTED = dict(holds=(("A", 1, (0, 1, 2), True, NOBODY),), granted=(("A", 1, TTL - DRIFT),),
               **FIVE)

SCENARIOS = (
    ("five nodes: two clients", Scenario((A1, B1), rounds=1, **FIVE)),
    ("five nodes, two of them down: two clients, holds end by time",
     Scenario((A1, B1), horizon=1, give_ups=1, down=2, **FIVE)),
    ("five nodes, one of them down: PUT and DELETE",
     Scenario((A1, DELETE, A2), rounds=1, proposals="lowest", down=1, **FIVE)),
    ("five nodes: a lease, a rival, two nodes lose their data",
     Scenario((B1,), horizon=2, losses=2, proposals="clock", rounds=1, **GRANTED)),
    ("five nodes, one of them down: a renewal, a rival, a node loses its data",
     Scenario((RENEW, B1), horizon=1, losses=1, proposals="higher", rounds=1, down=1,
              **GRANTED)),
)

VARIANTS = (
    ("A3", "five nodes: restarted nodes vote at once",
     weak("restart without quarantine", operations=(B1,), losses=2, proposals="higher",
          **GRANTED)),
    ("D1", "five nodes: DELETE is answered after one node",
     weak("released at one node", operations=(DELETE, A2), **GRANTED)),
    ("A6", "five nodes: votes for different tokens are added up",
     weak("votes added up", operations=(A1, A2), proposals="each", **FIVE)),
)
