"""What clients were answered, and what no client may ever be answered."""
from typing import NamedTuple, Optional

from scenario import DRIFT, WINDOW


class Violation(Exception):
    """A property does not hold."""


class Lease(NamedTuple):
    """The answers about one lease."""
    token: int = 0
    until: int = 0                  # its client relies on the lease until then
    asked: bool = False             # for its end: by its client, or by an operator
    ended: Optional[int] = None     # its end was answered: when that operation was sent
    floor: Optional[int] = None     # the highest token of others when its first request began


class Clients(NamedTuple):
    leases: tuple
    session_until: int = 0          # the deadline that the client was answered
    session_closed: bool = False    # by its client
    session_ended: bool = False     # this was answered


class Begun(NamedTuple):
    """What had been answered when an operation began."""
    late: bool = False              # that its lease or its session has ended
    floor: int = 0                  # the highest token of other leases
    relied: int = 0                 # until when the client relied on the lease


def relies_until(how, clients, i, name):
    until = clients.leases[i].until
    if name in how.bound:
        until = 0 if clients.session_closed else min(until, clients.session_until)
    return until


def with_lease(clients, i, **fields):
    leases = list(clients.leases)
    leases[i] = leases[i]._replace(**fields)
    return clients._replace(leases=tuple(leases))


def begun(how, names, clients, i, is_put):
    name, own = names[i], clients.leases[i]
    late = own.ended is not None or name in how.bound and clients.session_ended
    floor = max([lease.token for k, lease in enumerate(clients.leases) if k != i] or [0])
    if is_put and own.floor is None and how.readers:
        clients = with_lease(clients, i, floor=floor)
    return clients, Begun(late, floor, relies_until(how, clients, i, name))


def holds(how, names, clients, now, i, decision, begin, has_restarted):
    """The clients after an answer that the lease holds; raises Violation."""
    own, name, token, until = clients.leases[i], names[i], decision.token, decision.until
    if begin.late and (own.ended is None or now < own.ended + WINDOW or not has_restarted):
        raise Violation(f"S3: a request sent after the end of {name} was answered is granted")
    over = clients.session_closed or now >= clients.session_until
    if own.asked or name in how.bound and over:
        return clients  # an answer that the end overtook: nobody relies on it
    for k, other in enumerate(clients.leases):
        if k == i:
            continue
        shared = name in how.readers and names[k] in how.readers
        if not shared and now < relies_until(how, clients, k, names[k]):
            raise Violation(f"S2: {name} is granted until {until}, and {names[k]} is until "
                            f"{relies_until(how, clients, k, names[k])}")
        if not shared and other.token >= token:
            raise Violation(f"S1: {name} has token {token}; {names[k]} had {other.token}")
        if shared and not own.token and token <= own.floor:
            raise Violation(f"S1: {name} has token {token}; its first request began when token "
                            f"{own.floor} had been granted")
    # Restarted nodes may know nothing of a lease whose ttl is over.
    if own.token not in (0, token) and (now < own.until + DRIFT or not has_restarted):
        raise Violation(f"S1: {name} has token {token}, and had {own.token} before")
    return with_lease(clients, i, token=token, until=max(own.until, until))


def ended(how, names, clients, now, i, sent, word, begin, has_restarted):
    """The clients after an answer that the lease has ended."""
    own = clients.leases[i]
    if word == "ended" and own.ended is None and not has_restarted and now < begin.relied:
        raise Violation(f"D2: DELETE finds {names[i]} ended, and its client relied on it until "
                        f"{begin.relied}")
    return with_lease(clients, i, until=0, ended=sent if own.ended is None else own.ended)


def looked(how, names, clients, now, i, word, token, begin):
    """Checks an answer of GET, a listing or a check of a token."""
    name = names[i]
    relied = now < min(begin.relied, relies_until(how, clients, i, name))
    if word == "not-locked" and relied:
        raise Violation(f"O2: {name} is shown as free, and its client relies on it until "
                        f"{begin.relied}")
    if word == "locked" and begin.late:
        raise Violation(f"O2: {name} is shown as held after its end was answered")
    if word == "stale" and relied:
        raise Violation(f"O3: the token of {name} is refused, and its client relies on it")
    if word == "current" and token < begin.floor:
        raise Violation(f"O3: token {token} is accepted after token {begin.floor} was granted")


def alive(clients, until, was_ended):
    if was_ended:
        raise Violation("S: a keep-alive sent after the end was answered is open")
    return clients._replace(session_until=max(clients.session_until, until))


def session_ended(clients, now, kind):
    if kind != "close" and not clients.session_closed and now < clients.session_until:
        raise Violation(f"S: the session expires at {now}, and its client was answered "
                        f"{clients.session_until}")
    return clients._replace(session_ended=True)
