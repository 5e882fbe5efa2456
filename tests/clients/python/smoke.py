"""The steps with the client that openapi-python-client generates."""
import os
import uuid

from rlockd import Client
from rlockd.api.latches import count_down, create_latch, delete_latch, get_latch
from rlockd.api.leases import (acquire_lock, acquire_locks, get_multi_lock, release_lock,
                               release_multi_lock, renew_lock)
from rlockd.api.locks import get_lock, list_locks
from rlockd.api.semaphores import (acquire_permit, acquire_semaphore, create_permit_semaphore,
                                   create_semaphore, delete_semaphore, get_permit_semaphore,
                                   release_permit, release_semaphore, renew_permit)
from rlockd.api.sessions import end_session, keep_session_alive, open_session
from rlockd.models import (AcquireFields, AcquirePermitFields, AcquireSemaphoreFields,
                           CreateLatchFields, CreateSemaphoreFields, KeepAliveFields,
                           MultiAcquireFields, MultiLease, OpenSessionFields, Problem,
                           ProblemReason, ReleaseSemaphoreFields, RenewFields)

client = Client(base_url=os.environ["RLOCKD_URL"])


def ask(operation, status, *path, **fields):
    """Calls an operation; what its answer says, which must have this status."""
    answer = operation.sync_detailed(*path, client=client, **fields)
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert isinstance(answer.parsed, Problem) == (status >= 400)
    return answer.parsed


def token():
    return str(uuid.uuid4())


def ok(step):
    print("ok", step)


def opened_session():
    session_token = token()
    session = ask(open_session, 201, session_token=session_token,
                  body=OpenSessionFields(name="smoke/python"))
    assert session.ttl_ms == 30000
    ok("open-session")
    return session_token, session.session_id


def locks(session_token, session_id):
    name = "python/orders 42"
    holder = {"lease_token": token(), "session_token": session_token}
    body = AcquireFields(ttl_ms=60000, note="smoke")
    lease = ask(acquire_lock, 201, name, body=body, **holder)
    assert lease.lock == name and lease.fencing_token > 0
    ok("acquire")
    again = ask(acquire_lock, 200, name, body=body, **holder)
    assert again.lease_id == lease.lease_id
    ok("acquire-again")
    locked = ask(acquire_lock, 423, name, lease_token=token(), body=AcquireFields(wait_ms=50))
    assert locked.type_ == "urn:rlockd:problem:locked" and locked.retry_after_ms > 0
    assert locked.holder.lease_id == lease.lease_id
    ok("locked")
    look(name, lease)
    # No body at all.
    renewed = ask(renew_lock, 200, name, lease_token=holder["lease_token"])
    assert renewed.watchdog
    assert ask(renew_lock, 200, name, lease_token=holder["lease_token"],
               body=RenewFields(ttl_ms=60000)).ttl_ms == 60000
    ok("renew")
    alive = ask(keep_session_alive, 200, session_id, session_token=session_token,
                body=KeepAliveFields(held=[lease.lease_id]))
    assert [held.lease_id for held in alive.leases] == [lease.lease_id]
    assert alive.lost == []
    ok("keep-alive")
    released = ask(release_lock, 200, name, lease_token=holder["lease_token"])
    assert released.hold_count == 0
    ok("release")
    ended = ask(acquire_lock, 410, name, body=body, **holder)
    assert ended.reason == ProblemReason.RELEASED
    ok("ended")


def look(name, lease):
    state = ask(get_lock, 200, name)
    assert state.locked and state.holders[0].lease_id == lease.lease_id
    assert state.holders[0].note == "smoke"
    ok("look")
    page = ask(list_locks, 200, prefix="python/")
    assert [lock.lock for lock in page.locks] == [name] and page.next_cursor is None
    ok("list")


def several_locks():
    lease_token = token()
    lease = ask(acquire_locks, 201, lease_token=lease_token,
                body=MultiAcquireFields(locks=["python/2", "python/1"]))
    assert [hold.lock for hold in lease.locks] == ["python/1", "python/2"]
    state = ask(get_multi_lock, 200, lease_token=lease_token)
    assert isinstance(state, MultiLease) and state.lease_id == lease.lease_id
    assert ask(release_multi_lock, 200, lease_token=lease_token).hold_count == 0
    ok("several-locks")


def semaphore():
    name = "python/pool"
    ask(create_semaphore, 201, name, body=CreateSemaphoreFields(permits=3))
    taken = ask(acquire_semaphore, 200, name, body=AcquireSemaphoreFields(permits=2))
    assert taken.available == 1
    given = ask(release_semaphore, 200, name, body=ReleaseSemaphoreFields())
    assert (given.permits, given.available) == (1, 2)
    assert ask(delete_semaphore, 200, name).deleted
    ok("semaphore")


def permit(session_token):
    name = "python/gpu"
    lease_token = token()
    ask(create_permit_semaphore, 201, name, body=CreateSemaphoreFields(permits=2))
    taken = ask(acquire_permit, 201, name, lease_token=lease_token, session_token=session_token,
                body=AcquirePermitFields())
    assert taken.available == 1 and taken.watchdog
    ask(renew_permit, 200, name, lease_token=lease_token, body=RenewFields(ttl_ms=60000))
    assert ask(get_permit_semaphore, 200, name).holders[0].lease_id == taken.lease_id
    ask(release_permit, 200, name, lease_token=lease_token)
    ok("permit")


def latch():
    name, greatest = "python/ready", 2**53 - 1
    made = ask(create_latch, 201, name, body=CreateLatchFields(count=greatest))
    assert made.count == greatest
    key = token()
    for _ in range(2):
        assert ask(count_down, 200, name, idempotency_key=key).count == greatest - 1
    assert ask(get_latch, 200, name, wait_ms=50).count == greatest - 1
    ask(delete_latch, 200, name)
    ok("latch")


def main():
    session_token, session_id = opened_session()
    locks(session_token, session_id)
    several_locks()
    semaphore()
    permit(session_token)
    latch()
    assert ask(end_session, 200, session_id, session_token=session_token).released == 0
    ok("end-session")


main()
