"""Losses that a keep-alive tells: a lease of a session is lost, that is noted and told once,
and the token is used again. Three nodes; what the front end that tells a loss sends may run at
a node at any later time. All leases have one token; a tick is half of the retry window."""
from collections import deque
from itertools import combinations, permutations
from typing import NamedTuple, Optional

from client import Violation

NODES, MAJORITY = 3, 2
WINDOW, SLACK = 2, 1  # ticks


class Telling(NamedTuple):
    ends: int = 1       # how often the lease is lost
    tells: int = 2      # keep-alives
    horizon: int = 3    # ticks
    refusals: int = 0   # requests with the token while it is spent: they make notes newer
    weak: frozenset = frozenset()


class Told(NamedTuple):
    """A message: notes that are older than `before` are of a loss that was told."""
    before: int
    sent: int
    again: bool         # by a front end that has read a mark


class Node(NamedTuple):
    note: Optional[tuple]       # when the newest request for the lease was noted, and which
                                # lease: when it was granted
    loss: Optional[tuple] = None  # when it was noted, and of which lease
    mark: Optional[int] = None  # `before` of the loss that was told last
    late: frozenset = frozenset()


class State(NamedTuple):
    now: int
    granted: Optional[int]  # the live lease; None: it is lost
    ended: int
    told: frozenset         # leases whose loss was told
    ends: int
    tells: int
    refusals: int
    nodes: tuple


def with_nodes(state, chosen, change):
    nodes = tuple(change(node) if i in chosen else node for i, node in enumerate(state.nodes))
    return state._replace(nodes=nodes)


def majorities():
    return [chosen for k in range(MAJORITY, NODES + 1)
            for chosen in combinations(range(NODES), k)]


def noted(how, node, now):
    """The watchdog has found the loss: a node without a note changes nothing."""
    if node.note is None:
        return node
    if node.mark is not None and node.note[0] <= node.mark + SLACK and \
            "a refused request is news" not in how.weak:
        return node._replace(note=None)
    return node._replace(note=None, loss=(now, node.note[1]), mark=None)


def refused(state, i):
    """A request with the token, which is spent: the note is that of the same lease."""
    return with_nodes(state._replace(refusals=state.refusals - 1), (i,),
                      lambda node: node._replace(note=(state.now, node.note[1])))


def told(how, state, node, message):
    """A note that is newer than the loss is of a later lease, and so is a loss that was noted
    after this was told."""
    if node.loss and node.loss[0] > message.sent and "a later loss goes" not in how.weak:
        return node
    if node.loss and node.loss[1] not in state.told and not message.again:
        raise Violation("T: a loss goes that was not told")
    before = node.loss[0] if node.loss else message.before
    if "by the time of telling" in how.weak:
        before = message.sent
    is_old = node.note is not None and (node.note[0] < before or
                                        "whatever its age" in how.weak)
    if is_old and node.note[1] == state.granted:
        raise Violation("N: the note of a lease that holds goes")
    mark = max(before, node.mark or 0)
    if "a mark of the run" in how.weak:
        mark = state.now
    return node._replace(note=None if is_old else node.note, loss=None, mark=mark)


def send(how, state, message, at_once):
    """Some nodes get the message at once, the others later."""
    after = with_nodes(state, at_once, lambda node: told(how, state, node, message))
    others = set(range(NODES)) - set(at_once)
    return with_nodes(after, others, lambda node: node._replace(late=node.late | {message}))


def first(values):
    return next((value for value in values if value is not None), None)


def keep_alive(how, state, readers):
    """Of these nodes: what one has and another has a mark of was told, and goes."""
    nodes = [state.nodes[i] for i in readers]
    note, loss, mark = (first(getattr(node, name) for node in nodes)
                        for name in ("note", "loss", "mark"))
    slack = SLACK if "a slack for notes" in how.weak else 0
    dropped = mark is not None and (loss is not None or note is not None and
                                    note[0] < mark + slack)
    # The lease of the note is looked at, and found to be lost.
    if not dropped and not loss and note is not None and state.granted is None:
        slack = 0 if "a refused request is news" in how.weak else SLACK
        if mark is None or note[0] > mark + slack:
            loss = (state.now, note[1])
    if dropped and loss is None and note[1] == state.granted:
        raise Violation("N: a keep-alive leaves out a lease that holds")
    state = state._replace(tells=state.tells - 1)
    if dropped:
        before = state.now if "again by its own time" in how.weak else mark
        message = Told(before, state.now, True)
    elif loss:
        # Where the lease is lost a second time, the first loss may be told again.
        if loss[1] in state.told and how.ends == 1:
            raise Violation("T: a loss is told twice")
        message = Told(loss[0], state.now, False)
        # That the lease is lost, whichever of those with its token.
        known = {node.loss[1] for node in state.nodes if node.loss} | {loss[1]}
        state = state._replace(told=state.told | known)
    else:
        return
    state = state._replace(now=state.now + 1)  # what is noted later has a later time
    for chosen in majorities():
        yield "a loss that was told goes" if dropped else "a loss is told", \
            send(how, state, message, chosen)


def steps(how, state):
    if state.now < how.horizon:
        yield "time", state._replace(now=state.now + 1)
    if state.granted is not None and state.ends and state.now > state.granted:
        yield "the lease is lost", state._replace(granted=None, ended=state.now,
                                                  ends=state.ends - 1)
    if state.granted is None:
        for chosen in majorities():
            yield f"noted at {chosen}", with_nodes(state, chosen,
                                                   lambda node: noted(how, node, state.now))
    if state.granted is None and state.now < state.ended + WINDOW and state.refusals:
        for i, node in enumerate(state.nodes):
            if node.note is not None:
                yield f"n{i + 1}: a request is refused", refused(state, i)
    if state.granted is None and state.now >= state.ended + WINDOW:
        for chosen in majorities():
            yield f"granted anew at {chosen}", with_nodes(
                state._replace(granted=state.now), chosen,
                lambda node: node._replace(note=(state.now, state.now)))
    if state.tells:
        for readers in permutations(range(NODES), MAJORITY):
            yield from keep_alive(how, state, readers)
    for i, node in enumerate(state.nodes):
        for message in node.late:
            after = told(how, state, node._replace(late=node.late - {message}), message)
            yield f"n{i + 1}: a message that comes late", with_nodes(state, (i,),
                                                                    lambda _, to=after: to)


def explore(how, limit):
    """As search.explore()."""
    state = State(0, 0, 0, frozenset(), how.ends, how.tells, how.refusals,
                  (Node((0, 0)),) * NODES)
    came_from, todo = {state: None}, deque([state])
    try:
        while todo:
            state = todo.popleft()
            for words, after in steps(how, state):
                if after not in came_from:
                    came_from[after] = (state, words)
                    todo.append(after)
            if len(came_from) > limit:
                raise Violation(f"not finished: more than {limit} states")
    except Violation as violation:
        return len(came_from), str(violation), retrace(came_from, state)
    return len(came_from), None, []


def retrace(came_from, state):
    texts = []
    while came_from[state]:
        state, words = came_from[state]
        texts.append(words)
    return texts[::-1]


def weak(*rules, **fields):
    return Telling(weak=frozenset(rules), **fields)


SCENARIOS = (
    ("a loss is told, its token is used again", Telling(horizon=5)),
    ("a loss is told, its token is used at once", Telling(refusals=2)),
    ("a loss is told, its token is used again, and lost again", Telling(ends=2, horizon=4)),
)

VARIANTS = (
    ("S4", "a loss that was told takes the note of a later lease",
     weak("whatever its age", horizon=5)),
    ("S4", "a loss that was told takes the notes of before it was told",
     weak("by the time of telling", horizon=5)),
    ("S4", "a front end that reads a mark takes the notes of before that",
     weak("again by its own time", horizon=5)),
    ("S4", "a mark has the time when it was made", weak("a mark of the run", horizon=5)),
    ("S4", "a mark is for notes that are somewhat newer, too",
     weak("a slack for notes", horizon=5)),
    ("S4", "a request that is refused makes a loss that was told a new one",
     weak("a refused request is news", refusals=2)),
    ("S4", "a loss that was told takes a later loss",
     weak("a later loss goes", ends=2, horizon=5)),
)
