"""Cases for tests of the product's code: what a front end concludes from which replies, and
what a node makes of a script. One case a line, of the functions that the model explores, so
that model and product cannot part.

    conclude PHASE nodes=N round=R/LAST token=T sent=MS now=MS ttl=MS drift=MS over=0|1
        : REPLY... : WORD token=T until=MS undo=NODES mend=NODES : RULES
    node SCRIPT ... : STATE : STATE REPLY : RULES
    propose clocks=T,T,T last=T : T : RULES
    baton heard=N timer=0|1 : 0|1 : RULES
    refused votes=N : HOLDER... : sleep|contend publish=0|1 register=NODES : RULES

usage: python3 tests/model/quorum/cases.py FILE

A reply is `-` (none yet) or a word with its number. Lines that begin with # are comments."""
import sys
from itertools import combinations_with_replacement

import waiters
from conclusion import Round, conclude, proposal
from node import NOBODY, Hold, Node, Script, Session, restart, run
from scenario import QUARANTINE, TTL, Scenario

# Of each phase: the replies that a node may give, and the rules of the phase.
PHASES = {
    "vote": ((("accepted", 5), ("held", 3), ("held", 5), ("held", 7), ("busy",), ("low", 6),
              ("clock", 8), ("lapsed",), ("spent",), ("quarantine",), ("unbound",)), ""),
    "claim": ((("claimed", 9000), ("claimed", 400), ("claimed", 50), ("gone",)), "A6"),
    "end": ((("ended",),), "E1"),
    "release": ((("released",), ("ended",)), "D1 D2"),
    "renew": ((("held", 5), ("held", 3), ("marked", 5), ("marked", 3), ("gone",),
               ("restarted",)), "R1 S4"),
    "force": ((("forced",), ("free",), ("low", 7), ("low", 9), ("clock", 4)),
              "O1"),
    "spend": ((("released",), ("ended",)), "O1"),
    "look": ((("held", 5), ("held", 3), ("other",), ("free",), ("restarted",)), "O2 O4"),
    "check": ((("held", 5), ("held", 7), ("other",), ("free",), ("restarted",)), "O3"),
    "keep": ((("open",), ("passed",), ("ended",), ("unknown",)), "S1"),
    "due": ((("open", 9000), ("open", 300), ("passed",), ("ended",), ("unknown",)), "S2"),
    "shut": ((("ended",), ("open",), ("unknown",)), "S2"),
    "close": ((("ended",),), "S1"),
}
VOTE_RULES = {"granted": "A4", "late": "A4", "claim": "A6", "vote": "A7", "unknown": "A7",
              "busy": "A9", "split": "A9", "unbound": "S1", "quarantine": "A3", "wait": "A9"}
RULES = ("A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 D1 D2 E1 R1 R2 S1 S2 S3 S4 W1 W2 W3 W4 "
         "O1 O2 O3 O4 Q1").split()


def shown(reply):
    return ":".join(map(str, reply)) if reply else "-"


def nodes_shown(nodes):
    return "all" if nodes is None else ",".join(map(str, nodes)) or "none"


def rules_of(phase, replies, decision):
    words = [reply[0] for reply in replies if reply]
    if phase != "vote":
        rules = PHASES[phase][1]
        if decision.mend:
            rules += " S3" if phase in ("keep", "due") else " R2"
        return rules
    if decision.word == "end":
        return "A5" if "spent" in words else "A9"
    if decision.word == "vote" and "held" not in words:
        return "A8"
    return VOTE_RULES[decision.word]


def conclusions(nodes):
    for phase, (replies, _) in PHASES.items():
        # Of five nodes a case has two sorts of replies at most, besides those that are missing.
        for chosen in combinations_with_replacement((None,) + replies, nodes):
            if nodes > 3 and len(set(chosen) - {None}) > 2:
                continue
            for number, over, now in ((1, False, 1040), (1, True, 1040), (3, True, 1040),
                                      (1, True, 10950)):
                asked = Round(number, 5, 1000, 3, frozenset(), nodes, 102, 10000)
                made = conclude(phase, asked, chosen, now, over)
                yield (f"conclude {phase} nodes={nodes} round={number}/3 token=5 sent=1000 "
                       f"now={now} ttl=10000 drift=102 over={int(over)} : "
                       f"{' '.join(map(shown, chosen))} : {made.word} token={made.token} "
                       f"until={made.until} undo={nodes_shown(made.undo)} "
                       f"mend={nodes_shown(made.mend)} : {rules_of(phase, chosen, made)}")


def state_shown(node):
    holds = ",".join(f"{hold.lease}/{hold.token}/{hold.attempt}.{hold.round}/{hold.was}/"
                     f"{hold.since}/{int(hold.claimed)}" for hold in node.holds) or "-"
    session = node.session.state if node.session else "-"
    lapsed = ",".join(sorted(lease for lease, _ in node.lapsed)) or "-"
    return (f"counter={node.counter} holds={holds} spent={','.join(sorted(node.spent)) or '-'} "
            f"lapsed={lapsed} session={session} "
            f"quarantine={node.votes_from}")


SCRIPTS = (("vote 1", Script("vote", 0, 1, 5), "A2"), ("vote 2", Script("vote", 0, 2, 3), "A2"),
           ("claim 5", Script("claim", 0, 5), "A6"), ("withdraw", Script("withdraw", 0), "A10"),
           ("release", Script("release", 0), "D1"), ("end", Script("end", 0), "E1"),
           ("renew", Script("renew", 0), "R1"), ("repair 5", Script("repair", 0, 5, 2), "R2"),
           ("force 5", Script("force", 0, 5), "O1"), ("close", Script("close", 0), "S1"),
           ("keep", Script("keep", 0), "S2"), ("restore", Script("restore", 0, 0, 2), "S3"))


def node_states():
    empty = Node(0, 0, False, 0, (), frozenset(), frozenset(), Session("open"), frozenset(),
                 (None,), ())
    own = Hold("A", 5, 0, 1, 2, 0, False)
    other = Hold("B", 4, 1, 1, 2, 0, True)
    yield empty
    yield empty._replace(counter=9)
    yield empty._replace(counter=5, holds=(own,))
    yield empty._replace(counter=8, holds=(own,))
    yield empty._replace(counter=5, holds=(own._replace(claimed=True),))
    yield empty._replace(counter=7, holds=(own._replace(token=7, claimed=True),))
    yield empty._replace(counter=5, holds=(own._replace(attempt=1),))
    yield empty._replace(counter=4, holds=(other,))
    yield empty._replace(spent=frozenset("A"))
    yield empty._replace(lapsed=frozenset([("A", NOBODY)]))
    for state in ("passed", "ended", "unknown"):
        yield empty._replace(session=Session(state))


def node_cases():
    how = Scenario(bound=frozenset("A"))
    for node in node_states():
        for readers in (frozenset(), frozenset("AB")):
            for name, script, rule in SCRIPTS:
                after, reply = run(how._replace(readers=readers), node, 1, script, "A")
                kind = "read" if readers else "lock"
                yield (f"node {name} kind={kind} now=1 : {state_shown(node)} : "
                       f"{state_shown(after)} reply={shown(reply)} : {rule}")
        after = restart(node, 1)
        yield f"node restart quarantine={QUARANTINE} now=1 : {state_shown(node)} : " \
              f"{state_shown(after)} reply=- : Q1"
    quarantined = restart(next(node_states()), 1)
    for name, script, rule in SCRIPTS:
        after, reply = run(how, quarantined, TTL, script, "A")
        yield (f"node {name} kind=lock now={TTL} : {state_shown(quarantined)} : "
               f"{state_shown(after)} reply={shown(reply)} : A3")


def proposals():
    for clocks in ((10, 20, 30), (30, 10, 20), (10, 10, 90), (10, 20, 30, 40, 50)):
        for last in (0, 19, 20, 70):
            made = proposal(clocks, last)
            yield f"propose clocks={','.join(map(str, clocks))} last={last} : {made} : A1"


def refusals():
    for count in range(4):
        for busy in combinations_with_replacement(("B", "C"), count):
            for votes in range(4 - count):
                phase = waiters.phase_after_refusal(busy, 2)
                publish = waiters.publishes(votes, 2)
                yield (f"refused votes={votes} : {' '.join(busy) or '-'} : {phase} "
                       f"publish={int(publish)} register={count} : W2 W3 W4")


def batons():
    for heard in range(4):
        for timer in (False, True):
            has = waiters.has_baton(heard, timer, 2)
            yield f"baton heard={heard} timer={int(timer)} : {int(has)} : W1"


def write(path):
    """Writes all cases. Returns their number, and the rules that no case touches."""
    count, touched = 0, set()
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Made by tests/model/quorum (make model): see its cases.py\n")
        for made in (conclusions(3), conclusions(5), node_cases(), proposals(), refusals(),
                     batons()):
            for line in made:
                count += 1
                touched |= set(line.rsplit(" : ", 1)[1].split())
                file.write(line + "\n")
    unknown = touched - set(RULES)
    if unknown:
        sys.exit(f"cases of rules that there are not: {sorted(unknown)}")
    return count, [rule for rule in RULES if rule not in touched]


if __name__ == "__main__":
    write(sys.argv[1])
