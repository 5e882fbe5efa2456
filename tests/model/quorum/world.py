"""The states of a scenario and the steps between them: what front ends send, in which order it
runs, what is lost, late or repeated, what time ends and which node restarts.

A state is (now, budget, operations, clients, node, node, ...), all but the time as numbers of
tables. Nodes are alike, so the search sorts them: states that differ in the order of the nodes
are one (search.py). An operation begins, goes on or gives up in one step with the first of its
scripts to run: to do so earlier would only make the time of its client shorter."""
from itertools import combinations
from typing import NamedTuple

import client as answers
from client import Begun, Clients, Lease, Violation
from conclusion import Round, conclude
from node import (NOBODY, REPEATED, SENT, Hold, Node, Script, Session, hold_of, lapse, may_end,
                  must_end, reads, restart, run)
from scenario import DRIFT, LONG, TTL

IDLE, OVER, WITHDRAWN = "idle", "over", "withdrawn"
PAUSED = "paused"  # its votes are being withdrawn; then it votes again
# The first phase of each kind of operation.
KINDS = {"put": "vote", "delete": "release", "renew": "renew", "force": "force", "look": "look",
         "check": "check", "keep": "keep", "close": "close", "expire": "due",
         "lengthen": "renew", "visit": "renew"}
TIMES = {"renew": TTL, "lengthen": LONG, "visit": TTL}


class Operation(NamedTuple):
    phase: str = IDLE
    number: int = 0    # of the round
    token: int = 0
    sent: int = 0      # when the scripts under way were sent
    begun: Begun = Begun()


class Budget(NamedTuple):
    """What may still go wrong."""
    losses: int
    reverts: int
    duplicates: int
    strays: int
    give_ups: int


class Table:
    """Values and their numbers."""

    def __init__(self):
        self.values, self.numbers = [], {}

    def number(self, value):
        number = self.numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def is_over(operation):
    return operation.phase in (OVER, WITHDRAWN)


class World:
    def __init__(self, how):
        self.how = how
        self.kinds = [kind for _, kind, _ in how.operations]
        self.lease_of = [lease for _, _, lease in how.operations]
        named = {lease for lease, *_ in how.holds} | {lease for lease, *_ in how.granted}
        self.names = sorted(set(self.lease_of) | named | set(how.bound))
        self.budgets, self.operations, self.clients, self.nodes = (Table() for _ in range(4))
        self.memory = {}
        self.begin = None

    # -- the first state

    def first_node(self, i):
        how = self.how
        holds = tuple(Hold(lease, token, attempt, 1, 0, how.since, claimed)
                      for lease, token, nodes, claimed, attempt in how.holds if i in nodes)
        counter = max([hold.token for hold in holds] or [0])
        counter = how.counters[i] if how.counters else counter
        late = [Script("repair", self.lease_of.index(lease), token, TTL - DRIFT)
                for lease, token, node in how.repairs if node == i]
        if "release after the memory" in how.weak:
            late += [Script("release", self.lease_of.index(lease))
                     for lease, node in how.releases if node == i]
        late += [Script("withdraw", at) for _, at, node in how.lapsed if node == i]
        lapsed = frozenset((lease, at) for lease, at, node in how.lapsed if node == i)
        session = Session(how.session[i]) if how.session else None
        noted = frozenset(hold.lease for hold in holds if hold.lease in how.bound)
        return Node(how.skews[i] if how.skews else 0, 0, False, counter, holds, frozenset(),
                    lapsed, session, noted, (None,) * len(self.kinds), tuple(sorted(late)))

    def first(self):
        how = self.how
        nodes = [self.first_node(i) for i in range(how.nodes - how.down)]
        self.begin = nodes[0]._replace(late=())
        asked = {lease for lease, *_ in how.holds}
        leases = [Lease(floor=0) if name in asked else Lease() for name in self.names]
        for lease, token, until in how.granted:
            leases[self.names.index(lease)] = Lease(token, until, floor=0)
        clients = Clients(tuple(leases), TTL - DRIFT if how.session else 0)
        budget = Budget(how.losses, how.reverts, how.duplicates, how.strays, how.give_ups)
        operations = tuple(self.first_operation(at) for at in range(len(self.kinds)))
        return (0, self.budgets.number(budget), self.operations.number(operations),
                self.clients.number(clients), *map(self.nodes.number, nodes))

    def first_operation(self, at):
        """An operation whose votes are there at the beginning has sent them, or withdraws those
        that have ended by time."""
        if any(attempt == at for _, attempt, _ in self.how.lapsed):
            return Operation(PAUSED)
        tokens = [token for _, token, _, _, attempt in self.how.holds if attempt == at]
        return Operation("vote", 1, tokens[0], 0) if tokens else Operation()

    def parts(self, state):
        return (state[0], self.budgets.values[state[1]], self.operations.values[state[2]],
                self.clients.values[state[3]], state[4:])

    def remembered(self, function, *key):
        """The result of a method that depends on these numbers only."""
        key = (function.__name__, *key)
        result = self.memory.get(key)
        if result is None:
            result = self.memory[key] = function(*key[1:])
        return result

    # -- scripts

    def script_of(self, at, operation):
        phase = operation.phase
        if phase == "vote":
            return Script("vote", at, operation.number, operation.token)
        if phase == "renew":
            name = "visit" if self.kinds[at] == "visit" else phase
            return Script(name, at, operation.number, TIMES[self.kinds[at]])
        name = {"spend": "release", "check": "look"}.get(phase, phase)
        token = operation.token if phase in ("claim", "write-back", "force") else 0
        return Script(name, at, token)

    def run(self, node, now, script):
        return run(self.how, node, now, script, self.lease_of[script.at])

    def run_awaited(self, node, now, at, operation):
        script = self.script_of(at, operation)
        after, reply = self.run(node, now, script)
        replies = after.replies[:at] + (reply,) + after.replies[at + 1:]
        return (script, reply), after._replace(replies=replies)

    def run_late(self, node, now, script):
        after = self.run(node, now, script)[0]
        late = tuple(other for other in after.late if other != script)
        return (script, None), after._replace(late=late)

    def node_steps(self, number, now, operations, budget):
        """What may happen at one node: [(words, node, budget)], as numbers."""
        node, operations = self.nodes.values[number], self.operations.values[operations]
        budget = self.budgets.values[budget]
        steps = []
        for at, reply in enumerate(node.replies):
            if reply is SENT:
                words, after = self.run_awaited(node, now, at, operations[at])
                steps.append((words, after, budget))
                if budget.duplicates and words[0] not in after.late:
                    late = tuple(sorted(after.late + (words[0],)))
                    left = budget._replace(duplicates=budget.duplicates - 1)
                    steps.append((words, after._replace(late=late), left))
        for script in node.late:
            steps.append((*self.run_late(node, now, script), budget))
        steps += self.ends_by_time(node, now, budget) + self.restarts(node, now, budget)
        return [(words, self.nodes.number(self.tidy(after, now, operations)),
                 self.budgets.number(left)) for words, after, left in steps]

    def ends_by_time(self, node, now, budget):
        steps = [(f"the hold of {hold.lease} ends by time", lapse(node, hold), budget)
                 for hold in node.holds if may_end(hold, now) and not self.how.spaced]
        session = node.session
        if session and session.state == "open" and may_end(session, now) and \
                not self.how.spaced:
            passed = node._replace(session=Session("passed"))
            steps.append(("the deadline of the session passes", passed, budget))
        return steps

    def restarts(self, node, now, budget):
        steps = []
        if budget.losses:
            steps.append(("restarts without data", restart(node, now),
                          budget._replace(losses=budget.losses - 1)))
        if budget.reverts:
            steps.append(("restarts with data of the beginning", restart(node, now, self.begin),
                          budget._replace(reverts=budget.reverts - 1)))
        return steps

    def tidy(self, node, now, operations):
        """Drops what can have no effect any more, so that fewer states differ."""
        active = {self.lease_of[at] for at, operation in enumerate(operations)
                  if not is_over(operation)}
        late = tuple(script for script in node.late
                     if self.has_effect(node, now, script, active))
        known = active | {self.lease_of[script.at] for script in late}
        if "refused without withdrawal" in self.how.weak:
            known |= set(self.names)
        holds = tuple(sorted(self.tidy_hold(hold, operations, known, late)
                             for hold in node.holds))
        return node._replace(
            late=late, holds=holds, spent=node.spent & known,
            lapsed=frozenset(self.tidy_mark(mark, operations, late)
                             for mark in node.lapsed if mark[0] in known),
            votes_from=node.votes_from if now < node.votes_from else 0,
            restarted=node.restarted and bool(holds))

    def tidy_hold(self, hold, operations, known, late):
        if hold.lease not in known:
            name = "=" if reads(self.how, hold.lease) else "-"
            token = hold.token if "force" in self.kinds else 0
            return Hold(name, token, NOBODY, 0, 0, hold.since, True)
        is_moot = hold.claimed or hold.attempt == NOBODY or self.is_moot(
            operations[hold.attempt], hold.attempt, late)
        mark = hold.mark
        if mark > NOBODY and "ordered by clocks" not in self.how.weak and \
                self.is_moot(operations[mark], mark, late):
            mark = NOBODY
        if is_moot and "withdrawal by lease" not in self.how.weak:
            return Hold(hold.lease, hold.token, NOBODY, 0, 0, hold.since, True, mark)
        return hold._replace(mark=mark)

    def tidy_mark(self, mark, operations, late):
        lease, at = mark
        is_moot = at == NOBODY or self.is_moot(operations[at], at, late)
        return (lease, NOBODY) if is_moot else mark

    def is_moot(self, operation, at, late):
        """Nothing will tell a vote of this operation from a claimed hold."""
        kept = "refused without withdrawal" in self.how.weak
        return is_over(operation) and not any(script.at == at for script in late) and not (
            kept and operation.phase == WITHDRAWN)

    def has_effect(self, node, now, script, active):
        name, lease = script.name, self.lease_of[script.at]
        if name == "restore":
            return now < script.second or "late session repair" in self.how.weak
        if name == "force":
            return bool(node.holds) or node.counter < script.first or bool(self.how.weak)
        if name in ("close", "shut", "keep", "due"):
            return node.session.state != "ended" or name == "close"
        if name == "vote":
            return lease not in node.spent or "spent forgotten" in self.how.weak
        if name == "repair":
            if lease in node.spent and "repair of the spent" not in self.how.weak:
                return False
            return now < script.second or "late repair" in self.how.weak
        comes = lease in active or any(other.name in ("vote", "repair") and other != script
                                       and self.lease_of[other.at] == lease
                                       for other in node.late)
        return comes or hold_of(node, lease) is not None

    # -- what a front end does

    def turn(self, number, now, at, operations, stray, posted, slot):
        """A node after operation `at` awaits its replies no more, and has posted others."""
        node = self.nodes.values[number]
        late = set(node.late) | set(posted) | ({stray} if stray else set())
        replies = node.replies[:at] + (slot,) + node.replies[at + 1:]
        node = node._replace(replies=replies, late=tuple(sorted(late)))
        return self.nodes.number(self.tidy(node, now, self.operations.values[operations]))

    def moved_on(self, state, at, after, clients=None, posted=None, withdraws=False):
        """The states in which operation `at` has become `after`, and none of its next scripts
        has run. Of those that have not run, as many as the budget allows may run later.
        `posted`: scripts by node."""
        now, budget, before, _, nodes = self.parts(state)
        script = self.script_of(at, before[at]) if before[at].phase != IDLE else None
        awaited = [i for i, n in enumerate(nodes) if self.nodes.values[n].replies[at] is SENT]
        unheard = [i for i, n in enumerate(nodes)
                   if self.nodes.values[n].replies[at] in (None, SENT)]
        unrepeated = script is not None and script.name not in REPEATED
        most = min(budget.strays, len(awaited)) if unrepeated else 0
        choices = [chosen for k in range(most + 1) for chosen in combinations(awaited, k)] \
            if unrepeated else [tuple(awaited)]
        operations = self.operations.number(before[:at] + (after,) + before[at + 1:])
        slot = None if is_over(after) or after.phase == PAUSED else SENT
        heard = after.phase == "renew" and after.number > 1 and \
            "asked again unheard" not in self.how.weak
        for chosen in choices:
            left = budget._replace(strays=budget.strays - len(chosen)) if unrepeated else budget
            if withdraws:
                left = left._replace(give_ups=left.give_ups - 1)
            turned = [self.remembered(self.turn, n, now, at, operations,
                                      script if i in chosen else None,
                                      posted[i] if posted else (),
                                      None if heard and i in unheard else slot)
                      for i, n in enumerate(nodes)]
            yield (now, self.budgets.number(left), operations,
                   state[3] if clients is None else self.clients.number(clients), *turned)

    def first_runs(self, state, at, after, words, clients=None):
        """The operation goes on, and one of its scripts runs at once."""
        for moved in self.moved_on(state, at, after, clients):
            for i in range(4, len(moved)):
                if moved[i] in moved[4:i] or \
                        self.nodes.values[moved[i]].replies[at] is not SENT:
                    continue
                ran, number = self.remembered(self.first_run, moved[i], moved[0], at, moved[2])
                yield (at, words, i - 4, ran), moved[:i] + (number,) + moved[i + 1:]

    def first_run(self, number, now, at, operations):
        operations = self.operations.values[operations]
        words, node = self.run_awaited(self.nodes.values[number], now, at, operations[at])
        return words, self.nodes.number(self.tidy(node, now, operations))

    def withdrawn(self, state, at, words, posts=True):
        """The operation is over for its client; its votes are withdrawn at all nodes."""
        count = len(state) - 4
        script = Script("withdraw", at)
        posted = [(script,) if posts else ()] * count
        for moved in self.moved_on(state, at, Operation(WITHDRAWN), None, posted, True):
            if not posts:
                yield (at, words), moved
                continue
            for i in range(4, len(moved)):
                if script not in self.nodes.values[moved[i]].late or moved[i] in moved[4:i]:
                    continue
                ran, number = self.remembered(self.late_run, moved[i], moved[0], script,
                                              moved[2])
                yield (at, words, i - 4, ran), moved[:i] + (number,) + moved[i + 1:]

    def paused(self, state, at, operation):
        """No majority agrees on a token: the votes are withdrawn before the next try, which is
        no sooner than all nodes have confirmed that."""
        posted = [(Script("withdraw", at),)] * (len(state) - 4)
        for moved in self.moved_on(state, at, Operation(PAUSED, begun=operation.begun), None,
                                   posted):
            yield (at, "pauses"), moved

    def resumed(self, state, at, operation):
        now, nodes = state[0], state[4:]
        if any(script.at == at for n in nodes for script in self.nodes.values[n].late):
            return
        for token in self.proposals(at, now):
            after = Operation("vote", 1, token, now, operation.begun)
            yield from self.first_runs(state, at, after, "tries again")

    def late_run(self, number, now, script, operations):
        words, node = self.run_late(self.nodes.values[number], now, script)
        return words, self.nodes.number(
            self.tidy(node, now, self.operations.values[operations]))

    def proposals(self, at, now):
        how = self.how
        if isinstance(how.proposals, tuple):
            return how.proposals
        if how.proposals == "clock":
            return sorted({max(1, now + skew) for skew in how.skews or (0,)})
        return {"any": (1, 2) if at else (1,), "lowest": (1,), "higher": (2,),
                "each": (at + 1,)}[how.proposals]

    def start(self, state, at):
        now, _, _, clients, _ = self.parts(state)
        i, kind = self.names.index(self.lease_of[at]), self.kinds[at]
        own, tokens = clients.leases[i], (0,)
        if self.how.in_turn and kind != "visit" and self.is_busy(state, at):
            return
        if kind in ("renew", "lengthen", "visit", "check") and not own.token or \
                clients.session_ended and kind in ("close", "expire"):
            return
        clients, begun = answers.begun(self.how, self.names, clients, i, kind == "put")
        if kind in ("delete", "force") or kind == "put" and self.is_forced(state):
            clients = answers.with_lease(clients, i, until=0, asked=True)
        if kind == "force":
            clients = self.all_forced(state, clients)
        if kind == "close":
            clients = clients._replace(session_closed=True)
        if kind in ("renew", "lengthen"):
            until = min(own.until, now + TIMES[kind] - DRIFT)
            clients = answers.with_lease(clients, i, until=until)
        if kind in ("keep", "close", "expire"):
            begun = Begun(clients.session_ended)
        if kind in ("put", "force"):
            tokens = self.proposals(at, now)
        if kind == "check":
            tokens = (own.token,)
        for token in tokens:
            after = Operation(KINDS[kind], 1, token, now, begun)
            yield from self.first_runs(state, at, after, "begins", clients)

    def is_busy(self, state, at):
        """Whether an earlier request for the lease of `at` was not answered yet."""
        operations = self.parts(state)[2]
        return any(self.lease_of[k] == self.lease_of[at] and self.kinds[k] != "visit" and
                   not is_over(operations[k]) for k in range(at))

    def is_forced(self, state):
        """Whether a force-unlock is under way: what is granted meanwhile may be freed, too."""
        operations = self.parts(state)[2]
        return any(kind == "force" and operation.phase != IDLE and not is_over(operation)
                   for kind, operation in zip(self.kinds, operations))

    def all_forced(self, state, clients):
        """Nobody relies on what a request gets that began before the force-unlock."""
        operations = self.parts(state)[2]
        for at, operation in enumerate(operations):
            if self.kinds[at] == "put" and operation.phase != IDLE:
                i = self.names.index(self.lease_of[at])
                clients = answers.with_lease(clients, i, until=0, asked=True)
        return clients

    def conclusions(self, phase, operation, now, replies, ttl):
        """What any part of the replies lets the operation conclude."""
        asked = Round(operation.number, operation.token, operation.sent, self.how.rounds,
                      self.how.weak, self.how.nodes, ttl=ttl)
        present = [i for i, reply in enumerate(replies) if reply and reply is not SENT]
        down = (None,) * self.how.down
        found, seen = [], set()
        for k in range(1, len(present) + 1):
            for chosen in combinations(present, k):
                part = tuple(replies[i] if i in chosen else None for i in range(len(replies)))
                alike = tuple(sorted(part, key=str))
                decision = conclude(phase, asked, part + down, now, True)
                # Repairs name nodes, so there the order counts.
                key = (decision._replace(undo=None), alike if decision.mend else None)
                if key not in seen:
                    seen.add(key)
                    found.append(decision)
        return found

    def decide(self, state, at, operation):
        now, budget, _, _, nodes = self.parts(state)
        if self.kinds[at] == "put" and operation.phase != "end" and budget.give_ups:
            yield from self.withdrawn(state, at, "gives up")
        if self.how.in_turn and operation.phase == "renew" and budget.give_ups:
            for moved in self.moved_on(state, at, Operation(OVER), withdraws=True):
                yield (at, "is answered 503"), moved
        replies = tuple(self.nodes.values[n].replies[at] for n in nodes)
        for decision in self.remembered(self.conclusions, operation.phase, operation, now,
                                        replies, TIMES.get(self.kinds[at], TTL)):
            yield from self.carry_out(state, at, operation, decision)

    def carry_out(self, state, at, operation, decision):
        word = decision.word
        if word in ("unknown", "late", "wait"):
            return
        if word in ("busy", "unbound", "quarantine"):
            if self.parts(state)[1].give_ups and "refused without withdrawal" in self.how.weak:
                yield from self.withdrawn(state, at, f"is refused: {word}", False)
            return  # with its withdrawal it is a request that gives up
        if word == "split":
            yield from self.paused(state, at, operation)
            return
        if word in ("vote", "claim", "write-back", "end", "spend", "shut", "close"):
            yield from self.next_phase(state, at, operation, decision)
            return
        clients = self.answered(state, at, operation, decision)
        posted = self.posted(at, decision, len(state) - 4)
        text = f"is answered {word}"
        text += f", token {decision.token}" if decision.token else ""
        text += f", until {decision.until}" if decision.until else ""
        for moved in self.moved_on(state, at, Operation(OVER), clients, posted):
            yield (at, text), moved

    def next_phase(self, state, at, operation, decision):
        now, word = state[0], decision.word
        if word == "end" and "410 at once" in self.how.weak:
            over = Operation(OVER)
            clients = self.answered(state, at, operation, decision._replace(word="lost"))
            for moved in self.moved_on(state, at, over, clients):
                yield (at, "is answered lost"), moved
            return
        number = operation.number + (1 if word == "vote" else 0)
        sent = operation.sent if word == "write-back" else now
        # A keep-alive whose session has passed ends it only where it is still passed.
        if word == "close" and operation.phase == "keep" and \
                "closed by an old look" not in self.how.weak:
            word = "shut"
        token = decision.token or operation.token
        if word == "vote" and operation.phase in ("force", "renew"):
            word = operation.phase
        after = Operation(word, number, token, sent, operation.begun)
        yield from self.first_runs(state, at, after, f"goes on to {word}")

    def posted(self, at, decision, count):
        """Scripts whose replies nobody awaits, by node."""
        how, word = self.how, decision.word
        posted = [()] * count
        if word == "held":
            posted = [(Script("withdraw", at),)] * count
        if decision.mend and "no repair" not in how.weak:
            name = "restore" if word in ("keep", "alive") else "repair"
            script = Script(name, at, decision.token, decision.until)
            posted = [scripts + (script,) if i in decision.mend else scripts
                      for i, scripts in enumerate(posted)]
        if "late write-back" in how.weak and word == "granted":
            posted = [(Script("write-back", at, decision.token),)] * count
        return posted

    def answered(self, state, at, operation, decision):
        """The clients after this answer; raises Violation."""
        now, budget, _, clients, _ = self.parts(state)
        how, names, word, begun = self.how, self.names, decision.word, operation.begun
        i = names.index(self.lease_of[at])
        restarted = (budget.losses, budget.reverts) != (how.losses, how.reverts)
        if self.kinds[at] == "visit":
            return clients
        if word in ("granted", "held", "renewed"):
            return answers.holds(how, names, clients, now, i, decision, begun, restarted)
        if word in ("lost", "released", "ended", "forced"):
            if word == "lost" and how.spaced:
                raise Violation("R2: a lease that is renewed all the time is lost")
            return answers.ended(how, names, clients, now, i, operation.sent, word, begun,
                                 restarted)
        if word == "alive":
            return answers.alive(clients, decision.until, begun.late)
        if word in ("closed", "gone"):
            return answers.session_ended(clients, now, self.kinds[at])
        if word != "keep":
            answers.looked(how, names, clients, now, i, word, decision.token, begun)
        return clients

    # -- all steps

    def steps(self, state):
        """Yields (words, state) for all that may happen next; raises Violation."""
        now, budget, operations, _, nodes = self.parts(state)
        if all(is_over(operation) for operation in operations):
            return  # nobody is answered any more
        for at, operation in enumerate(operations):
            if operation.phase == IDLE:
                yield from self.start(state, at)
            elif operation.phase == PAUSED:
                yield from self.resumed(state, at, operation)
            elif not is_over(operation):
                yield from self.decide(state, at, operation)
        for i, number in enumerate(nodes):
            if number in nodes[:i]:
                continue
            for words, after, left in self.remembered(self.node_steps, number, now, state[2],
                                                      state[1]):
                if self.how.spaced and left != state[1] and not self.is_whole(
                        nodes, budget, operations):
                    continue
                changed = nodes[:i] + (after,) + nodes[i + 1:]
                yield ("node", i, words), (now, left, state[2], state[3], *changed)
        if now < self.how.horizon and not any(self.waits_for_time(n, now) for n in nodes):
            turned = [self.remembered(self.later, n, now + 1, state[2]) for n in nodes]
            yield ("time", now + 1), (now + 1, *state[1:4], *turned)

    def is_whole(self, nodes, budget, operations):
        """Each node has what was lost, or, where nothing is repaired, a renewal was answered.
        No round lasts from one restart to the next."""
        found = [self.nodes.values[number] for number in nodes]
        if not all(is_over(operation) or operation.phase == IDLE for operation in operations):
            return False
        if "no repair" in self.how.weak:
            return sum(map(is_over, operations)) >= self.how.losses - budget.losses
        return all((node.holds or not self.how.holds) and not node.late and
                   (not node.session or node.session.state == "open") for node in found)

    def waits_for_time(self, number, now):
        node = self.nodes.values[number]
        session = node.session
        return any(must_end(hold, now) for hold in node.holds) or bool(
            session and session.state == "open" and must_end(session, now))

    def later(self, number, now, operations):
        node = self.tidy(self.nodes.values[number], now, self.operations.values[operations])
        return self.nodes.number(node)

    # -- what holds in each state

    def settled(self, number, now, operations):
        """The node after all that is under way to it has run."""
        node, ops = self.nodes.values[number], self.operations.values[operations]
        scripts = [self.script_of(at, ops[at]) for at, reply in enumerate(node.replies)
                   if reply is SENT]
        for script in scripts + list(node.late):
            node = self.run(node, now, script)[0]
        left = [hold.lease for hold in node.holds if not hold.claimed
                and ops[hold.attempt].phase == WITHDRAWN]
        return node.counter, left

    def check(self, state):
        how = self.how
        now, budget, _, clients, nodes = self.parts(state)
        found = [self.remembered(self.settled, n, now, state[2]) for n in nodes]
        if how.give_ups and not how.strays and not how.duplicates:
            for _, left in found:
                if left:
                    raise Violation(f"L4: a vote for {left[0]} stays after its request ended")
        restarted = (budget.losses, budget.reverts) != (how.losses, how.reverts)
        highest = max(lease.token for lease in clients.leases)
        knowing = sum(counter >= highest for counter, _ in found)
        if not restarted and not how.weak and knowing < how.majority:
            raise Violation("S1: no majority knows the highest token that was granted")
