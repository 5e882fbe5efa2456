#!/usr/bin/env python3
"""Every interleaving of a search for deadlocks with the clients that it looks at.

Node i of n (a session, or an owner of a session) has lock i, and may wait for lock i + 1; the
last node waits for lock 0. Node 0 has begun to wait last and searches: it reads who holds
lock 1, what that holder waits for, and so on round to lock 0. Then it publishes a question,
which a front end answers for a wait that still goes on, and reads everything once more
(storage/wait/deadlock_check.c). Meanwhile any other node releases its lock and takes it again,
begins and ends waits; its front end is killed, so that a note stays; a note or an answer that
was sent reaches Redis at any later time.

Checked: a cycle that is told was there at one moment of the search; a cycle that stays is told;
one waiter of a cycle is refused; a wait that is the youngest of one of its cycles finds that.
Prints what becomes of weaker protocols."""
import itertools
import sys
from collections import deque, namedtuple

DESIGN = dict(rereads=True, grants=True, wait_ids=True, asks=True)

# Of each node but the first: the number of its wait that goes on (0: none), of its last wait,
# of the wait that its note names (0: no note), whether that note answers the question, and the
# note that is on its way to Redis: (wait, answers).
Node = namedtuple("Node", "live last note answer sent")
# Of each lock: the number of the grant by which node i has it, negative while another client
# has it. `step`: of the search; `seen`: what it has read; `was`: the cycle was there since.
State = namedtuple("State", "locks nodes step seen was")


def put(values, at, value):
    return values[:at] + (value,) + values[at + 1:]


def is_cycle(state):
    return all(grant > 0 for grant in state.locks) and all(node.live for node in state.nodes)


def clients(state, takes, waits):
    """What the clients, their front ends and the network may do next."""
    for i, grant in enumerate(state.locks):
        if grant > 0:
            yield f"node {i} releases", state._replace(locks=put(state.locks, i, -grant))
        elif -grant < takes:
            yield f"node {i} takes its lock", state._replace(
                locks=put(state.locks, i, 1 - grant))
    for i, node in enumerate(state.nodes):
        def change(**values):
            return state._replace(nodes=put(state.nodes, i, node._replace(**values)))
        name = f"node {i + 1}"
        if not node.live and node.last < waits:
            yield f"{name} waits", change(live=node.last + 1, last=node.last + 1)
        if node.live:
            yield f"{name}: its wait ends", change(
                live=0, note=0 if node.note == node.live else node.note, answer=False)
            yield f"{name}: its front end is killed", change(live=0)
            if not node.sent:
                yield f"{name} sends its note", change(sent=(node.live, False))
        if node.sent:
            wait, answers = node.sent
            known = node.answer and node.note == wait
            yield f"{name}: a note arrives", change(
                note=wait, answer=answers or known, sent=None)
            yield f"{name}: a note is lost", change(sent=None)


def plan(n):
    """What a search reads, in order: locks and notes in turn."""
    return [step for i in range(1, n) for step in (("lock", i), ("note", i))] + [("lock", 0)]


def search(state, how):
    """The next step of the search; "told" when it is over, None when it found no cycle."""
    reads = plan(len(state.locks))
    step, size = state.step, len(reads)
    if step == "idle":
        yield "the search begins", state._replace(
            step=0, seen=(), was=is_cycle(state),
            nodes=tuple(node._replace(answer=False) for node in state.nodes))
        return
    if step == "told" or step is None:
        return
    if step == size and how["asks"] and how["rereads"]:
        # A question is on its way: each wait that goes on may answer it, at any time.
        for i, node in enumerate(state.nodes):
            if node.live and not node.answer and not (node.sent and node.sent[1]):
                yield f"node {i + 1} sends an answer", state._replace(
                    nodes=put(state.nodes, i, node._replace(sent=(node.live, True))))
        if not all(node.answer for node in state.nodes):
            return
    if step == size and not how["rereads"]:
        yield "told", state._replace(step="told")
        return
    if step == 2 * size:
        yield "told", state._replace(step="told")
        return
    what, i = reads[step % size]
    if what == "lock":
        found = state.locks[i] if state.locks[i] > 0 else None
        identity = found if how["grants"] else bool(found)
    else:
        node = state.nodes[i - 1]
        found = node.note or None
        identity = found if how["wait_ids"] else bool(found)
        if step > size and how["asks"] and not node.answer:
            found = None
    if found is None or (step >= size and state.seen[step - size] != identity):
        yield "no cycle", state._replace(step=None)
    else:
        yield f"reads {what} {i}", state._replace(
            step=step + 1, seen=state.seen + (identity,) if step < size else state.seen)


def explore(n, takes, waits, how):
    node = Node(0, 0, 0, False, None)
    start = State((1,) * n, (node,) * (n - 1), "idle", (), False)
    before, todo = {start: None}, deque([start])
    while todo:
        state = todo.popleft()
        if state.step == "told":
            if not state.was:
                trace = []
                while before[state]:
                    state, label = before[state]
                    trace.append(label)
                return len(before), trace[::-1]
            continue
        if state.step is None:
            continue
        for label, after in itertools.chain(clients(state, takes, waits), search(state, how)):
            after = after._replace(was=after.was or is_cycle(after))
            if after.step == "idle":
                after = after._replace(was=False)
            if after not in before:
                before[after] = (state, label)
                todo.append(after)
    return len(before), None


def stays(n):
    """A cycle from which no client goes away is told, whatever the notes say at first."""
    choices = [Node(2, 2, note, False, sent) for note in (0, 1, 2)
               for sent in (None, (1, False), (2, False))]
    for nodes in itertools.product(choices, repeat=n - 1):
        state, rounds = State((1,) * n, nodes, "idle", (), True), 0
        while state.step != "told":
            rounds += 1
            if rounds > 100:
                return False
            if state.step == "idle":  # its front ends make the notes again
                state = state._replace(nodes=tuple(
                    node._replace(note=node.live, sent=None) for node in state.nodes))
            after = next((after for label, after in search(state, DESIGN)), None)
            if after is None or after.step is None:
                after = state._replace(step="idle")
            arrived = tuple(
                node._replace(note=node.sent[0], answer=node.sent[1], sent=None)
                if node.sent else node for node in after.nodes)
            state = after._replace(nodes=arrived)
    return True


def refusals(n, rule):
    """How many waiters of a cycle are refused, at least and at most: each of them searches, and
    those that have found the cycle go on in any order. Two waits may have begun at once."""
    counts = set()
    for began in itertools.product(range(2), repeat=n):
        youngest = max((began[i], i) for i in range(n))[1]
        last = [i for i in range(n) if began[i] == max(began)]
        refused = {"youngest": [youngest], "everybody": list(range(n)),
                   "youngest, without a tie-break": last,
                   "youngest, alone": last if len(last) == 1 else []}[rule]
        counts.add(len(refused))
    return min(counts), max(counts)


def first_cycle(waits, start, is_elder):
    """The waits of the cycle that a search from the wait `start` finds, or None. `waits` has of
    each wait the nodes that hold its lock, in the order in which they are read, and when it
    began. A node waits once and is read once; while `is_elder`, only waits that began before
    `start` are followed."""
    came_from, todo, later = {start: None}, deque([start]), []

    def cycle(node):
        return [] if node is None else cycle(came_from[node]) + [node]
    while todo or later:
        if not todo:  # no cycle of elder waits: the search goes on through the others
            todo, later = deque(later), []
            is_elder = False
        node = todo.popleft()
        if is_elder and waits[node][1] > waits[start][1]:
            later.append(node)
            continue
        for holder in waits[node][0]:
            if holder == start and node != start:
                return cycle(node)
            if holder in waits and holder not in came_from:
                came_from[holder] = node
                todo.append(holder)
    return None


def is_youngest_of_a_cycle(waits, node):
    """Whether the wait is the youngest of a cycle."""
    elder = {other: wait for other, wait in waits.items() if wait[1] <= waits[node][1]}
    reached, todo = set(), [node]
    while todo:
        for holder in elder[todo.pop()][0]:
            if holder in elder and holder not in reached:
                reached.add(holder)
                todo.append(holder)
    return node in reached


def youngest_that_miss(is_elder, nodes=3):
    """Of all waits of so many nodes, for locks that some of the others hold in any order: how
    many waits are the youngest of a cycle, and how many of these do not find that."""
    found = missed = 0
    choices = [order for count in range(nodes) for order in
               itertools.permutations(range(nodes - 1), count)]
    for holders in itertools.product(choices, repeat=nodes):
        for began in itertools.permutations(range(nodes)):
            waits = {i: ([k + (k >= i) for k in order], began[i])
                     for i, order in enumerate(holders) if order}
            for node in waits:
                if not is_youngest_of_a_cycle(waits, node):
                    continue
                cycle = first_cycle(waits, node, is_elder)
                found += 1
                missed += max(cycle, key=lambda one: waits[one][1]) != node
    return found, missed


def main():
    # (nodes, grants of each lock, waits of each node): two nodes that do everything, and three
    # that keep their locks.
    worlds = ((2, 2, 2), (3, 1, 2))
    weaker = {"told at once": dict(rereads=False), "read again, whatever the grant":
              dict(grants=False), "read again, whatever the wait": dict(wait_ids=False),
              "read again, without a question": dict(asks=False)}
    failed = False
    for name, change in (("as designed", {}), *weaker.items()):
        how, states, trace = {**DESIGN, **change}, 0, None
        for world in worlds:
            count, trace = explore(*world, how)
            states += count
            if trace:
                break
        failed |= bool(trace) == (not change)
        print(f"{name:34} {states:7} states: "
              f"{'a cycle is told that never was' if trace else 'holds'}")
        for label in trace or ():
            print("      " + label)
    for n in (2, 3):
        told = stays(n)
        failed |= not told
        print(f"a cycle of {n} that stays is told: {told}")
    for rule in ("youngest", "everybody", "youngest, without a tie-break", "youngest, alone"):
        least, most = refusals(3, rule)
        failed |= (rule == "youngest") != ((least, most) == (1, 1))
        print(f"refused, {rule:30}: {least} to {most} of a cycle of 3")
    for name, is_elder in (("elder waits first", True), ("in any order", False)):
        found, missed = youngest_that_miss(is_elder)
        failed |= (missed > 0) == is_elder
        print(f"searched, {name:17}: {missed} of {found} waits that are the youngest of a "
              "cycle find another one")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
