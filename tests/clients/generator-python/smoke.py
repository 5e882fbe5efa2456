"""The steps with the client that openapi-generator generates."""
import os
import uuid

import rlockd
from rlockd import (AcquireFields, AcquirePermitFields, AcquireSemaphoreFields,
                    CreateLatchFields, CreateSemaphoreFields, KeepAliveFields,
                    MultiAcquireFields, MultiLease, OpenSessionFields, Problem,
                    ProblemReason, RenewFields)

client = rlockd.ApiClient(rlockd.Configuration(host=os.environ["RLOCKD_URL"]))
leases = rlockd.LeasesApi(client)
lock_api = rlockd.LocksApi(client)
sessions = rlockd.SessionsApi(client)
semaphores = rlockd.SemaphoresApi(client)
latches = rlockd.LatchesApi(client)


def refused(status, operation, *fields, **more):
    """Calls an operation; the problem that it is answered with."""
    try:
        operation(*fields, **more)
    except rlockd.ApiException as error:
        assert error.status == status, (error.status, error.body)
        return Problem.from_json(error.body)
    raise AssertionError(f"no {status}")


def granted(status, operation, *fields, **more):
    """Calls an operation, given by its form that tells the status, too."""
    answer = operation(*fields, **more)
    assert answer.status_code == status, answer.status_code
    return answer.data


def token():
    return str(uuid.uuid4())


def ok(step):
    print("ok", step)


def opened_session():
    session_token = token()
    session = granted(201, sessions.open_session_with_http_info, session_token,
                      OpenSessionFields(name="smoke/generator-python"))
    assert session.ttl_ms == 30000
    ok("open-session")
    return session_token, session.session_id


def locks(session_token, session_id):
    name, lease_token = "generator-python/orders 42", token()
    acquire = leases.acquire_lock_with_http_info
    acquisition = (lease_token, name, session_token, None,
                   AcquireFields(ttl_ms=60000, note="smoke"))
    lease = granted(201, acquire, *acquisition)
    assert lease.lock == name and lease.fencing_token > 0
    ok("acquire")
    assert granted(200, acquire, *acquisition).lease_id == lease.lease_id
    ok("acquire-again")
    locked = refused(423, acquire, token(), name, acquire_fields=AcquireFields(wait_ms=50))
    assert locked.type == "urn:rlockd:problem:locked" and locked.retry_after_ms > 0
    assert locked.holder.lease_id == lease.lease_id
    ok("locked")
    look(name, lease)
    # No body at all.
    assert leases.renew_lock(lease_token, name).watchdog
    assert leases.renew_lock(lease_token, name, RenewFields(ttl_ms=60000)).ttl_ms == 60000
    ok("renew")
    alive = sessions.keep_session_alive(session_token, session_id,
                                        KeepAliveFields(held=[lease.lease_id]))
    assert [held.lease_id for held in alive.leases] == [lease.lease_id]
    assert alive.lost == []
    ok("keep-alive")
    assert leases.release_lock(lease_token, name).hold_count == 0
    ok("release")
    assert refused(410, acquire, *acquisition).reason == ProblemReason.RELEASED
    ok("ended")


def look(name, lease):
    state = lock_api.get_lock(name)
    assert state.locked and state.holders[0].lease_id == lease.lease_id
    assert state.holders[0].note == "smoke"
    ok("look")
    page = lock_api.list_locks("generator-python/")
    assert [lock.lock for lock in page.locks] == [name] and page.next_cursor is None
    ok("list")


def several_locks():
    lease_token = token()
    lease = granted(201, leases.acquire_locks_with_http_info, lease_token, MultiAcquireFields(
        locks=["generator-python/2", "generator-python/1"]))
    assert [hold.lock for hold in lease.locks] == ["generator-python/1", "generator-python/2"]
    state = leases.get_multi_lock(lease_token).actual_instance
    assert isinstance(state, MultiLease) and state.lease_id == lease.lease_id
    assert leases.release_multi_lock(lease_token).hold_count == 0
    ok("several-locks")


def semaphore():
    name = "generator-python/pool"
    granted(201, semaphores.create_semaphore_with_http_info, name,
            CreateSemaphoreFields(permits=3))
    taken = semaphores.acquire_semaphore(
        name, acquire_semaphore_fields=AcquireSemaphoreFields(permits=2))
    assert taken.available == 1
    given = semaphores.release_semaphore(name)
    assert (given.permits, given.available) == (1, 2)
    assert semaphores.delete_semaphore(name).deleted
    ok("semaphore")


def permit(session_token):
    name, lease_token = "generator-python/gpu", token()
    granted(201, semaphores.create_permit_semaphore_with_http_info, name,
            CreateSemaphoreFields(permits=2))
    taken = granted(201, semaphores.acquire_permit_with_http_info, lease_token, name,
                    session_token, acquire_permit_fields=AcquirePermitFields())
    assert taken.available == 1 and taken.watchdog
    semaphores.renew_permit(lease_token, name, RenewFields(ttl_ms=60000))
    holders = semaphores.get_permit_semaphore(name).holders
    assert holders[0].lease_id == taken.lease_id
    semaphores.release_permit(lease_token, name)
    ok("permit")


def latch():
    name, greatest = "generator-python/ready", 2**53 - 1
    made = granted(201, latches.create_latch_with_http_info, name,
                   CreateLatchFields(count=greatest))
    assert made.count == greatest
    key = token()
    for _ in range(2):
        assert latches.count_down(name, key).count == greatest - 1
    assert latches.get_latch(name, 50).count == greatest - 1
    latches.delete_latch(name)
    ok("latch")


def main():
    session_token, session_id = opened_session()
    locks(session_token, session_id)
    several_locks()
    semaphore()
    permit(session_token)
    latch()
    assert sessions.end_session(session_token, session_id).released == 0
    ok("end-session")


main()
