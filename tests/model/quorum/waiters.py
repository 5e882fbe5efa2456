"""Waiting by messages (W1 to W4): a lock is released, and waiters at other front ends have to
try again. Three nodes; no time but timers that are armed. A state in which the lock is free,
every waiter sleeps and nothing is under way to wake one is a lost wake-up: only a poll would
end it."""
from collections import deque
from typing import NamedTuple

from client import Violation
from search import stuck

NODES, MAJORITY = 3, 2
HOLDER = -1  # in the place of a waiter's number


class Waiting(NamedTuple):
    waiters: int = 1
    holds: tuple = (0, 1, 2)   # nodes where the holder's lease holds at the beginning
    asleep: bool = False       # all waiters sleep at the beginning, and hear all nodes
    won: bool = False          # the first one has two votes, and is not answered yet
    down: int = 0              # nodes that never answer
    deaf: int = 0              # messages that are lost
    abandons: int = 0          # requests that withdraw what they got: hang-up
    releases: bool = True      # the holder releases; else it holds on
    poll: bool = False         # the first waiter tries once by its poll
    deletes: bool = False      # the first waiter's token is deleted
    weak: frozenset = frozenset()


class Waiter(NamedTuple):
    phase: str                 # "subscribe", "try", "sleep", "contend", "won", "gone"
    ready: bool = False        # a majority has acknowledged, and an attempt followed
    acknowledged: frozenset = frozenset()
    asked: frozenset = frozenset()  # nodes that the attempt has asked
    got: frozenset = frozenset()
    busy: tuple = ()           # who holds at the nodes that refused
    heard: frozenset = frozenset()  # nodes that have published since the last attempt
    timer: bool = False        # 5 ms after the first message


class State(NamedTuple):
    holders: tuple             # of each node: a waiter, HOLDER, or None
    releasing: frozenset       # nodes to which the release is under way
    messages: frozenset        # (waiter, node) under way
    ends: frozenset            # nodes whose message ends the wait of the first waiter
    registered: frozenset      # nodes that know that the first waiter waits
    waiters: tuple
    deaf: int
    abandons: int
    spent: frozenset           # nodes at which the first waiter's token is deleted


def phase_after_refusal(busy, majority):
    """W2: a waiter sleeps only if a majority is busy with one holder."""
    return "sleep" if any(busy.count(holder) >= majority for holder in busy) else "contend"


def publishes(votes, majority):
    """W3: whether the withdrawal of an attempt that had so many votes is published."""
    return votes >= majority


def has_baton(heard, timer, majority):
    """W1: `heard` nodes have published since the last attempt; the timer of 5 ms is over."""
    return heard >= majority or heard > 0 and timer


def living(how):
    return range(NODES - how.down)


def with_waiter(state, i, **fields):
    waiters = list(state.waiters)
    waiters[i] = waiters[i]._replace(**fields)
    return state._replace(waiters=tuple(waiters))


def with_holder(state, node, holder):
    return state._replace(holders=state.holders[:node] + (holder,) + state.holders[node + 1:])


def published(state, node):
    """A message to each waiter that the node has subscribed."""
    heard = {(i, node) for i, waiter in enumerate(state.waiters) if node in waiter.acknowledged}
    return state._replace(messages=state.messages | heard)


def begin_attempt(state, i):
    return with_waiter(state, i, phase="try", asked=frozenset(), got=frozenset(), busy=(),
                       heard=frozenset(), timer=False)


def subscriptions(how, state, i):
    waiter = state.waiters[i]
    if waiter.phase in ("won", "gone"):
        return
    for node in set(living(how)) - waiter.acknowledged:
        if waiter.phase == "subscribe" or waiter.ready:
            yield f"n{node + 1} acknowledges W{i + 1}", heard(how, with_waiter(
                state, i, acknowledged=waiter.acknowledged | {node}), i, node,
                waiter.ready and "late acknowledgement is nothing" not in how.weak)
    enough = 1 if "ready after one node" in how.weak else MAJORITY
    if waiter.phase == "subscribe" and len(waiter.acknowledged) >= enough:
        if "no attempt after subscribing" in how.weak:
            yield f"W{i + 1} sleeps", with_waiter(state, i, phase="sleep", ready=True)
        else:
            yield f"W{i + 1} tries again", begin_attempt(
                with_waiter(state, i, ready=True), i)


def heard(how, state, i, node, is_news=True):
    """The node has published, or acknowledged the subscription after the last attempt began: so
    what it published before may have been missed."""
    waiter = state.waiters[i]
    if not is_news or waiter.phase not in ("sleep", "try", "contend"):
        return state
    timer = waiter.phase == "sleep" and "no timer" not in how.weak
    return with_waiter(state, i, heard=waiter.heard | {node}, timer=waiter.timer or timer)


def attempts(how, state, i):
    """One script to each node, in any order; the attempt ends when a majority has replied."""
    waiter = state.waiters[i]
    if waiter.phase != "try":
        return
    for node in set(living(how)) - waiter.asked:
        holder = state.holders[node]
        asked = waiter.asked | {node}
        if i == 0 and node in state.spent:
            yield f"n{node + 1} has spent the token of W1", with_waiter(state, 0, phase="gone")
            continue
        if holder is None:
            after = with_waiter(with_holder(state, node, i), i, asked=asked,
                                got=waiter.got | {node})
            yield f"n{node + 1} votes for W{i + 1}", after
        else:
            after = with_waiter(state, i, asked=asked,
                                busy=tuple(sorted(waiter.busy + (holder,))))
            if i == 0 and not ("registered at one node" in how.weak and state.registered):
                after = after._replace(registered=after.registered | {node})
            yield f"n{node + 1} is busy for W{i + 1}", after
    if len(waiter.got) >= MAJORITY:
        yield f"W{i + 1} is granted", with_waiter(state, i, phase="won", got=frozenset())
    elif waiter.asked == frozenset(living(how)):
        yield from refused(how, state, i)


def refused(how, state, i):
    """W2: sleeps if a majority is busy with one holder, else contends."""
    waiter = state.waiters[i]
    loud = publishes(len(waiter.got), MAJORITY) or "loud withdrawal" in how.weak
    state = withdrawn(how, state, i, not loud)
    if not waiter.ready:
        phase = "subscribe"
    elif "sleeps when split" in how.weak:
        phase = "sleep"
    else:
        phase = phase_after_refusal(waiter.busy, MAJORITY)
    after = with_waiter(state, i, phase=phase, asked=frozenset(), got=frozenset(), busy=())
    if phase == "sleep" and after.waiters[i].heard:
        after = with_waiter(after, i, timer="no timer" not in how.weak)
    yield f"W{i + 1} is refused: {phase}", after


def withdrawn(how, state, i, is_quiet):
    """W3: a withdrawal publishes nothing, unless the attempt had a majority."""
    for node, holder in enumerate(state.holders):
        if holder == i:
            state = with_holder(state, node, None)
            if not is_quiet:
                state = published(state, node)
    return state


def wake_ups(how, state, i):
    waiter = state.waiters[i]
    name = f"W{i + 1}"
    if waiter.phase == "contend":
        yield f"{name} contends again", begin_attempt(state, i)
    if waiter.phase == "sleep":
        if has_baton(len(waiter.heard), waiter.timer, MAJORITY):
            yield f"{name} has the baton", begin_attempt(state, i)
    for node in living(how):
        if (i, node) not in state.messages:
            continue
        left = state._replace(messages=state.messages - {(i, node)})
        yield f"{name} hears n{node + 1}", heard(how, left, i, node)
        if state.deaf:
            yield f"the message of n{node + 1} to {name} is lost", left._replace(
                deaf=state.deaf - 1)


def others(how, state):
    """The holder's release, a hang-up, and a DELETE of the first waiter's token."""
    for node in state.releasing:
        after = state._replace(releasing=state.releasing - {node})
        if after.holders[node] == HOLDER:
            after = published(with_holder(after, node, None), node)
        yield f"n{node + 1} releases", after
    for i, waiter in enumerate(state.waiters):
        if waiter.phase == "won" and state.abandons:
            loud = "withdrawals publish nothing" not in how.weak
            after = withdrawn(how, state._replace(abandons=state.abandons - 1), i, not loud)
            yield f"W{i + 1} hangs up: withdrawn", with_waiter(after, i, phase="gone")
    for node in set(living(how)) - state.spent if how.deletes else ():
        ends = state.ends | (state.registered & {node})
        yield f"the token of W1 is deleted at n{node + 1}", state._replace(
            spent=state.spent | {node}, ends=ends)
    for node in state.ends:
        left = state._replace(ends=state.ends - {node})
        yield f"n{node + 1} tells the end of W1", with_waiter(left, 0, phase="gone")
        if state.deaf:
            yield f"the end of W1 at n{node + 1} is lost", left._replace(deaf=state.deaf - 1)


def steps(how, state):
    yield from others(how, state)
    for i in range(len(state.waiters)):
        yield from subscriptions(how, state, i)
        yield from attempts(how, state, i)
        yield from wake_ups(how, state, i)


def check(how, state, found):
    """What may not be the end of all steps."""
    if found:
        return
    asleep = [i for i, waiter in enumerate(state.waiters) if waiter.phase == "sleep"]
    if asleep and state.spent and asleep[0] == 0:
        raise Violation("W4: the token is deleted, and its request waits on")
    if asleep and state.holders.count(None) >= MAJORITY:
        raise Violation(f"L2: the lock is free, and W{asleep[0] + 1} sleeps")


def first(how):
    holders = tuple(HOLDER if node in how.holds else None for node in living(how))
    waiter = Waiter("try")
    if how.asleep:
        waiter = Waiter("sleep", True, frozenset(living(how)))
    waiters = (waiter,) * how.waiters
    if how.won:
        holders = (0, 0, None)[:len(holders)]
        waiters = (waiter._replace(phase="won"),) + waiters[1:]
    releasing = frozenset(living(how)) if how.releases else frozenset()
    if how.poll:
        waiters = (waiter._replace(phase="try"),) + waiters[1:]
    return State(holders, releasing, frozenset(), frozenset(), frozenset(), waiters, how.deaf,
                 how.abandons, frozenset())


def explore(how, limit=3_000_000):
    """As search.explore(). Wrong is also that waiters wake each other for ever."""
    state = first(how)
    came_from, todo, nexts = {state: None}, deque([state]), {}
    try:
        while todo:
            state = todo.popleft()
            found = list(steps(how, state))
            check(how, state, found)
            nexts[state] = found
            for words, after in found:
                if after not in came_from:
                    came_from[after] = state, words
                    todo.append(after)
            if len(came_from) > limit:
                raise Violation(f"not finished: more than {limit} states")
        if not how.releases:
            state = endless(nexts)
            if state:
                raise Violation("W3: waiters wake each other for ever while the lock is held")
        elif not how.abandons and not how.deletes:
            state = stuck({state: [after for _, after in found]
                           for state, found in nexts.items()},
                          lambda state: any(waiter.phase == "won" for waiter in state.waiters))
            if state:
                raise Violation("L2: nobody can get the lock any more")
    except Violation as violation:
        return len(came_from), str(violation), path_to(came_from, state)
    return len(came_from), None, []


def path_to(came_from, state):
    texts = []
    while came_from[state]:
        state, words = came_from[state]
        texts.append(words)
    return texts[::-1]


def endless(nexts):
    """A state that can come again although nothing but messages wakes its waiters."""
    count = {state: 0 for state in nexts}
    for found in nexts.values():
        for _, after in found:
            count[after] += 1
    todo = [state for state, n in count.items() if not n]
    while todo:
        state = todo.pop()
        for _, after in nexts[state]:
            count[after] -= 1
            if not count[after]:
                todo.append(after)
        del count[state]
    left = [state for state in nexts if state in count]
    return left[-1] if left else None


def weak(*rules, **fields):
    return Waiting(weak=frozenset(rules), **fields)


TWO = dict(waiters=2, holds=(0, 1), asleep=True)
HANG_UP = dict(waiters=2, holds=(), asleep=True, won=True, abandons=1)

SCENARIOS = (
    ("a release, one waiter", Waiting()),
    ("a release, one waiter, a message is lost", Waiting(deaf=1)),
    ("a release at two nodes, one waiter, a message is lost", Waiting(holds=(0, 1), deaf=1,
                                                                      asleep=True)),
    ("a release, two waiters", Waiting(**TWO)),
    ("a release, two waiters, a node is down: votes are split", Waiting(**TWO, down=1)),
    ("two waiters, a grant whose client hangs up", Waiting(**HANG_UP)),
    ("the lock is held at two nodes, two waiters",
     Waiting(**TWO, releases=False, poll=True)),
    ("a waiter's token is deleted, a message is lost",
     Waiting(deletes=True, releases=False, deaf=1)),
)

VARIANTS = (
    ("W1", "no attempt after the subscription", weak("no attempt after subscribing")),
    ("W1", "a subscription counts after one node", weak("ready after one node",
                                                        "late acknowledgement is nothing")),
    ("W1", "an acknowledgement after the attempt is no reason for another",
     weak("late acknowledgement is nothing", deaf=1)),
    ("W1", "the baton needs the messages of a majority",
     weak("no timer", holds=(0, 1), deaf=1, asleep=True)),
    ("W2", "a waiter sleeps also when votes are split",
     weak("sleeps when split", **TWO, down=1)),
    ("W3", "each withdrawal publishes",
     weak("loud withdrawal", **TWO, releases=False, poll=True)),
    ("W3", "no withdrawal publishes", weak("withdrawals publish nothing", **HANG_UP)),
    ("W4", "a waiter is registered at one node",
     weak("registered at one node", deletes=True, releases=False, deaf=1)),
)
