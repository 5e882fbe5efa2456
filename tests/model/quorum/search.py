"""Every state of a scenario, breadth first, and the shortest way to one that is wrong."""
from collections import deque

from client import Violation
from world import World

STATES_MAX = 3_000_000


def canonical(state):
    return state[:4] + tuple(sorted(state[4:]))


def explore(how, limit=STATES_MAX):
    """The number of states, what is violated (or None), and the steps that lead there."""
    world = World(how)
    state = canonical(world.first())
    came_from, todo, nexts = {state: None}, deque([state]), {}
    try:
        while todo:
            state = todo.popleft()
            world.check(state)
            found = [canonical(after) for _, after in world.steps(state)]
            for after in found:
                if after not in came_from:
                    came_from[after] = state
                    todo.append(after)
            if how.live:
                nexts[state] = found
            if len(came_from) > limit:
                raise Violation(f"not finished: more than {limit} states")
        if how.live:
            state = stuck(nexts, lambda state: any(
                lease.token for lease in world.clients.values[state[3]].leases))
            if state:
                raise Violation(f"L: no request can ever be answered {how.live}")
    except Violation as violation:
        return len(came_from), str(violation), retrace(world, came_from, state)
    return len(came_from), None, []


def stuck(nexts, is_good):
    """A state from which no state can be reached that is good; None: there is none."""
    before, todo, good = {}, deque(), set()
    for state, found in nexts.items():
        for after in found:
            before.setdefault(after, []).append(state)
        if is_good(state):
            good.add(state)
            todo.append(state)
    while todo:
        for state in before.get(todo.popleft(), ()):
            if state not in good:
                good.add(state)
                todo.append(state)
    return next((state for state in nexts if state not in good), None)


def retrace(world, came_from, state):
    """The steps to a state, as text, with names of nodes."""
    path = []
    while state:
        path.append(state)
        state = came_from[state]
    named, texts = world.first(), []
    for wanted in path[-2::-1]:
        words, named = next(step for step in world.steps(named) if canonical(step[1]) == wanted)
        texts.append(text(world, words))
    return texts


def text(world, words):
    if words[0] == "time":
        return f"time {words[1]}"
    if words[0] == "node":
        return node_text(world, words[1], words[2])
    line = f"{world.how.operations[words[0]][0]} {words[1]}"
    return f"{line}; {node_text(world, words[2], words[3])}" if len(words) > 2 else line


def node_text(world, i, words):
    if isinstance(words, str):
        return f"n{i + 1}: {words}"
    script, reply = words
    name = script.name + (f" {script.second}" if script.name == "vote" else "")
    found = "" if reply is None else ": " + " ".join(map(str, reply))
    return f"n{i + 1}: {name} of {world.how.operations[script.at][0]}{found}"
