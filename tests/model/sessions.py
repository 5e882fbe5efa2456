#!/usr/bin/env python3
"""Every interleaving of requests with one lease token and of the ends of their sessions.

A client uses one token for one lock in two sessions, or in a session and without one. The
lock's home answers the second request 422, but by then the request has noted its attempt in its
session. The note stays for a moment, or for long where the front end is killed. Each step is a
script at one home (storage/scripts: session_bind, acquire, withdraw, session_unbind, lease_end,
lease_watch, lease_claim), which runs at any time after it was sent, or never. A stranger takes
and leaves the lock; the client releases its lease; holds and records end by their time.

In some worlds the client sends keep-alives whose `held` does not name the lease, while none of
its requests has been answered that the lease holds. Such a keep-alive reads the notes, visits
the lease and, if that is old, ends it, each a step of its own.

Checked: no end, watchdog or keep-alive of a session changes a lease of another session; nothing
is granted to a session after its end (S4); a lease that the client of an open session was told
of has a note in the session; a grant that is withdrawn does not stay (L4); no keep-alive ends a
lease that a request was answered to hold. Prints what becomes of weaker protocols."""
import sys
from collections import deque
from typing import NamedTuple, Optional

DESIGN = dict(end_compares=True, visits_compare=True, spends_missing=True, bars=True,
              claims_instead=False, keeps_ended=True, keeps_others=True, drops_at_once=False,
              ends_listed="before")
NOBODY = 0  # the session of a lease without a session
STOLEN = -1  # the attempt of a lease that the end of another session has claimed


class Record(NamedTuple):
    state: str                      # "held", "waiting" or "spent"
    session: int = NOBODY
    # The request that was granted; None: claimed by an answer since; or listed by a keep-alive:
    # the keep-alives that were under way then.
    attempt: Optional[object] = None
    waiters: frozenset = frozenset()
    under_way: frozenset = frozenset()  # requests that were under way when its TTL was set


class State(NamedTuple):
    holder: str                     # "": the lock is free, "T": the lease, "Y": a stranger
    record: Optional[Record]
    bar: Optional[frozenset]        # its under_way; None: there is none
    requests: tuple                 # the phase of each
    sessions: tuple                 # of each: "open", "ended", "visited" or "over"
    notes: tuple                    # of each session: the requests that are noted
    late: int                       # visits of an end that may still run a second time
    keep_alives: tuple = ()         # the phase of each that does not name the lease
    is_young: bool = False          # the session's ttl has not passed since a note or a grant


class Violation(Exception):
    pass


def put(values, at, value):
    return values[:at] + (value,) + values[at + 1:]


class World:
    def __init__(self, of_requests, how, strangers, keep_alives):
        self.of_requests, self.how, self.strangers = of_requests, how, strangers
        self.keep_alives = keep_alives
        self.names = [f"request {i} (session {session or 'none'})"
                      for i, session in enumerate(of_requests)]

    def first(self):
        count = max(self.of_requests) + 1
        return State("", None, None, ("new",) * len(self.of_requests),
                     ("open",) * count, (frozenset(),) * count, 1 - min(self.keep_alives, 1),
                     ("new",) * self.keep_alives)

    # -- parts of a state

    def under_way(self, state):
        return frozenset(i for i, phase in enumerate(state.requests)
                         if phase in ("ask", "waits"))

    def write(self, state, record, **changes):
        """The state with this record, whose TTL begins now."""
        if record:
            record = record._replace(under_way=self.under_way(state))
        return state._replace(record=record, **changes)

    def spend(self, state):
        holder = "" if state.holder == "T" else state.holder
        return self.write(state, Record("spent"), holder=holder)

    def phase(self, state, i, phase):
        return state._replace(requests=put(state.requests, i, phase))

    def note(self, state, session, noted):
        if session == NOBODY:
            return state
        return state._replace(notes=put(state.notes, session, noted))

    # -- requests

    def request(self, state, i):
        session, name, phase = self.of_requests[i], self.names[i], state.requests[i]
        noted = state.notes[session]
        if phase == "new":
            if session == NOBODY or state.sessions[session] == "open":
                bound = self.note(state, session, noted | {i})._replace(
                    is_young=state.is_young or (session != NOBODY and self.keep_alives > 0))
                yield f"{name} is noted", self.phase(bound, i, "ask")
            else:
                yield f"{name}: the session has ended", self.phase(state, i, "over")
        elif phase in ("ask", "waits"):
            yield from self.ask(state, i)
            yield f"{name} is lost", self.phase(state, i, "withdraw")
            yield f"{name}: its front end is killed", self.phase(state, i, "over")
        elif phase == "withdraw":
            yield self.withdraw(state, i)
        elif phase == "unbind":
            forgotten = self.note(state, session, noted - {i})
            yield f"{name} forgets its note", self.phase(forgotten, i, "over")
            yield f"{name}: its front end is killed", self.phase(state, i, "over")
        elif phase == "told":
            yield from self.release(state, i)

    def ask(self, state, i):
        """acquire.lua, and lease_confirm.lua behind it."""
        session, name, record = self.of_requests[i], self.names[i], state.record
        if record and record.state == "spent":
            yield f"{name}: the token is spent", self.phase(state, i, "unbind")
        elif record and record.session != session and not (
                record.state == "held" and session == NOBODY):
            yield f"{name} is answered 422", self.phase(state, i, "unbind")
        elif record and record.state == "held":
            if state.holder != "T":
                yield f"{name}: the lease is lost", self.phase(self.spend(state), i, "unbind")
                return
            if record.attempt != i:
                state = state._replace(record=record._replace(attempt=None))
            yield f"{name} is told that it holds", self.phase(state, i, "told")
        elif state.holder:
            waiters = (record.waiters if record else frozenset()) | {i}
            waits = self.phase(self.write(state, Record("waiting", session, None, waiters)), i,
                               "waits")
            yield f"{name} waits", waits
            if not record:
                yield f"{name} is answered 423", self.phase(state, i, "unbind")
        else:
            if state.sessions[session] == "over":
                raise Violation(f"S4: {name} is granted the lock after the end of its session")
            granted = self.write(state, Record("held", session, i), holder="T",
                                 is_young=self.keep_alives > 0)
            yield f"{name} is granted the lock", self.phase(granted, i, "told")
            yield f"{name} is granted the lock, hangs up", self.phase(granted, i, "withdraw")
            yield f"{name} is granted the lock, its front end is killed", self.phase(
                granted, i, "over")

    def withdraw(self, state, i):
        record, name = state.record, self.names[i]
        if record and record.attempt == STOLEN:
            raise Violation(f"L4: {name} cannot withdraw its grant")
        if record and record.state == "held" and record.attempt != i:
            return f"{name} withdraws nothing: the lease holds", self.phase(state, i, "over")
        if record and (record.attempt == i or i in record.waiters):
            others = record.waiters - {i}
            if others:
                state = state._replace(record=record._replace(waiters=others))
            elif state.bar is not None:
                state = self.spend(state)
            else:
                holder = "" if state.holder == "T" else state.holder
                state = state._replace(record=None, holder=holder)
        return f"{name} withdraws", self.phase(state, i, "unbind")

    def release(self, state, i):
        if state.record and state.record.state == "held" and state.holder == "T":
            session = state.record.session
            released = self.note(self.spend(state), session, frozenset())
            yield f"{self.names[i]}: its client releases the lease", self.phase(
                released, i, "over")

    # -- sessions

    def is_other(self, state, session):
        record = state.record
        return record and record.state != "spent" and record.session != session

    def takes(self, state, session, what):
        if self.is_other(state, session):
            raise Violation(f"{what} of session {session} changes a lease of another session")

    def visit_of_end(self, state, session):
        """lease_end.lua."""
        how, record = self.how, state.record
        if self.is_other(state, session) and how["end_compares"]:
            if how["keeps_others"]:
                record = record._replace(under_way=self.under_way(state))
            if how["claims_instead"]:
                record = record._replace(attempt=STOLEN)
            bar = self.under_way(state) if how["bars"] else state.bar
            return state._replace(record=record, bar=bar)
        self.takes(state, session, "the end")
        if record is None:
            return self.spend(state) if how["spends_missing"] else state
        if record.state == "spent":
            return self.write(state, record) if how["keeps_ended"] else state
        return self.spend(state)

    def end(self, state, session):
        phase, noted = state.sessions[session], state.notes[session]

        def change(after, phase):
            return after._replace(sessions=put(after.sessions, session, phase))
        if phase == "open":
            yield f"session {session} is marked as ended", change(state, "ended")
        elif phase == "ended" and noted:
            yield f"the end of session {session} visits the lease", change(
                self.visit_of_end(state, session), "visited")
        elif phase in ("ended", "visited"):
            yield f"the end of session {session} is worked off", change(
                self.note(state, session, frozenset()), "over")
        elif state.late:
            late = self.visit_of_end(state, session)._replace(late=state.late - 1)
            yield f"the end of session {session} visits the lease again", late

    def visit(self, state, session):
        """lease_watch.lua and session_settle.lua, and lease_claim.lua, while it is open."""
        how, record, noted = self.how, state.record, state.notes[session]
        if state.sessions[session] != "open" or not noted:
            return
        is_other = self.is_other(state, session)
        is_old = not noted & self.under_way(state)
        if record is None or record.state == "spent" or (is_other and how["visits_compare"]):
            if is_old or (is_other and how["drops_at_once"]):
                yield f"session {session} forgets the lease", self.note(state, session,
                                                                        frozenset())
            return
        if record.state == "waiting":
            return
        if state.holder != "T":
            self.takes(state, session, "the watchdog")
            yield f"session {session} has lost the lease", self.note(
                self.spend(state), session, frozenset())
        elif isinstance(record.attempt, int):
            self.takes(state, session, "a keep-alive")
            yield f"a keep-alive of session {session} lists the lease", self.list(state)

    # -- keep-alives of session 1 that do not name the lease

    def asking(self, state):
        return frozenset(k for k, phase in enumerate(state.keep_alives)
                         if phase not in ("new", "over"))

    def list(self, state):
        return state._replace(record=state.record._replace(attempt=self.asking(state)))

    def keep_alive(self, state, k):
        phase, name = state.keep_alives[k], f"keep-alive {k}"
        record, how = state.record, self.how["ends_listed"]
        is_held = record and record.state == "held" and record.session == 1 and \
            state.holder == "T"

        def change(after, phase):
            return after._replace(keep_alives=put(after.keep_alives, k, phase))
        if phase == "new" and "told" not in state.requests and state.sessions[1] == "open":
            yield f"{name} is sent", change(state, "sent")
        elif phase == "sent":
            reads = state.sessions[1] == "open" and state.notes[1] and not state.is_young
            yield f"{name} reads the notes", change(state, "read" if reads else "over")
        elif phase == "read":
            if not is_held or state.is_young:
                yield f"{name} finds nothing that is old", change(state, "over")
                return
            if how == "own":
                state = state._replace(record=record._replace(attempt=frozenset((k, "own"))))
            elif isinstance(record.attempt, int):
                state = self.list(state)
            yield f"{name} lists the lease", change(state, "listed")
        elif phase == "listed":
            yield from self.end_listed(state, k, is_held, change)

    def end_listed(self, state, k, is_held, change):
        """lease_end.lua with `before_ms`."""
        name, how = f"keep-alive {k}", self.how["ends_listed"]
        attempt = state.record.attempt if is_held else None
        is_listed = isinstance(attempt, frozenset)
        may_end = {"always": True, "own": attempt == {k, "own"}, "any": is_listed,
                   "before": is_listed and k not in attempt}[how]
        if is_held and may_end:
            if "told" in state.requests:
                raise Violation(f"{name} ends a lease whose client was answered that it holds")
            ended = self.note(self.spend(state), 1, frozenset())
            yield f"{name} ends the lease", change(ended, "over")
            return
        if is_held and attempt is None:
            state = self.list(state)
        yield f"{name} leaves the lease", change(state, "over")

    # -- strangers and time

    def others(self, state):
        record, under_way = state.record, self.under_way(state)
        if state.is_young and not self.asking(state):
            yield "the ttl of the session passes", state._replace(is_young=False)
        if self.strangers and not state.holder:
            yield "a stranger takes the lock", state._replace(holder="Y")
        if state.holder == "Y":
            yield "the stranger leaves the lock", state._replace(holder="")
        if state.holder == "T":
            yield "the hold ends by its time", state._replace(holder="")
        if record and state.holder != "T" and not record.under_way & under_way:
            yield "the record ends by its time", state._replace(record=None)
        if state.bar is not None and not state.bar & under_way:
            yield "the bar ends by its time", state._replace(bar=None)

    def steps(self, state):
        for i in range(len(state.requests)):
            yield from self.request(state, i)
        for session in range(1, len(state.sessions)):
            yield from self.end(state, session)
            yield from self.visit(state, session)
        for k in range(len(state.keep_alives)):
            yield from self.keep_alive(state, k)
        yield from self.others(state)

    def check(self, state):
        record = state.record
        if not record or record.state != "held" or state.holder != "T":
            return
        session, attempt = record.session, record.attempt
        if state.sessions[session] == "over":
            raise Violation("S4: a lease holds after the end of its session")
        told = "told" in (state.requests[i] for i, own in enumerate(self.of_requests)
                          if own == session and (attempt in (None, STOLEN, i) or
                                                 isinstance(attempt, frozenset)))
        if told and session != NOBODY and state.sessions[session] == "open" and \
                not state.notes[session]:
            raise Violation("a lease that its client was told of is not noted in its session")


def explore(of_requests, how, strangers, keep_alives=0):
    world = World(of_requests, how, strangers, keep_alives)
    before, todo = {world.first(): None}, deque([world.first()])
    while todo:
        state = todo.popleft()
        try:
            world.check(state)
            for words, after in world.steps(state):
                if after not in before:
                    before[after] = (state, words)
                    todo.append(after)
        except Violation as violation:
            trace = []
            while before[state]:
                state, words = before[state]
                trace.append(words)
            return len(before), str(violation), trace[::-1]
    return len(before), None, []


# The sessions of the requests; whether a stranger comes between; how many keep-alives do not
# name the lease. For a lease that holds, a PATCH is a request without a session.
WORLDS = (((1, 2), True), ((NOBODY, 1), True), ((1, 2, 2), True), ((NOBODY, 1, 1), False),
          ((1, NOBODY), False, 2), ((1, 1), False, 2))
WEAKER = {
    "an end takes any lease": dict(end_compares=False),
    "watchdog and keep-alives take any lease": dict(visits_compare=False),
    "an end spends no missing record": dict(spends_missing=False),
    "an end leaves no bar": dict(bars=False),
    "an end claims a lease of another session": dict(bars=False, claims_instead=True),
    "an end lets the record of a spent token end": dict(keeps_ended=False),
    "an end lets the record of another session end": dict(keeps_others=False),
    "a note of another session's lease is dropped at once": dict(drops_at_once=True),
    "a keep-alive ends what it has found": dict(ends_listed="always"),
    "a keep-alive ends what has its own mark": dict(ends_listed="own"),
    "a keep-alive ends what any one has listed": dict(ends_listed="any"),
}


def main():
    failed = False
    for name, change in (("as designed", {}), *WEAKER.items()):
        states, violated, trace = 0, None, []
        for of_requests, *others in WORLDS[::-1] if "ends_listed" in change else WORLDS:
            count, violated, trace = explore(of_requests, {**DESIGN, **change}, *others)
            states += count
            if violated:
                break
        failed |= bool(violated) == (not change)
        print(f"{name:52} {states:7} states: {violated or 'holds'}", flush=True)
        for words in trace:
            print("      " + words)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
