package main

import "smoke/rlockd"

type session struct {
	token string
	id    rlockd.SessionId
}

func openSession() session {
	token := token()
	body := rlockd.OpenSessionFields{Name: pointer("smoke/go")}
	opened := expect[*rlockd.OpenSessionResponse](201)(client.OpenSessionWithResponse(ctx,
		&rlockd.OpenSessionParams{SessionToken: &token}, body))
	check(opened.JSON201.TtlMs == 30000, "a session lasts 30 s by default")
	ok("open-session")
	return session{token, opened.JSON201.SessionId}
}

func (s session) end() {
	ended := expect[*rlockd.EndSessionResponse](200)(client.EndSessionWithResponse(ctx, s.id,
		&rlockd.EndSessionParams{SessionToken: s.token}))
	check(ended.JSON200.Released == 0, "the session has no leases left")
	ok("end-session")
}

func locks(s session) {
	const name = "go/orders 42"
	holder := rlockd.AcquireLockParams{LeaseToken: token(), SessionToken: &s.token}
	body := rlockd.AcquireFields{TtlMs: pointer(60000), Note: pointer("smoke")}

	lease := expect[*rlockd.AcquireLockResponse](201)(
		client.AcquireLockWithResponse(ctx, name, &holder, body)).JSON201
	check(lease.Lock == name && lease.FencingToken > 0, "the lease is of the lock")
	ok("acquire")
	again := expect[*rlockd.AcquireLockResponse](200)(
		client.AcquireLockWithResponse(ctx, name, &holder, body)).JSON200
	check(again.LeaseId == lease.LeaseId, "the same lease")
	ok("acquire-again")
	other := rlockd.AcquireLockParams{LeaseToken: token()}
	locked := expect[*rlockd.AcquireLockResponse](423)(client.AcquireLockWithResponse(ctx, name,
		&other, rlockd.AcquireFields{WaitMs: pointer(50)})).ApplicationproblemJSON423
	check(locked.Type == "urn:rlockd:problem:locked", "type")
	check(*locked.Holder.LeaseId == lease.LeaseId && *locked.RetryAfterMs > 0, "the holder")
	ok("locked")

	look(name, lease)
	renewed := expect[*rlockd.RenewLockResponse](200)(client.RenewLockWithResponse(ctx, name,
		&rlockd.RenewLockParams{LeaseToken: holder.LeaseToken}, rlockd.RenewFields{})).JSON200
	check(renewed.Watchdog, "without ttl_ms the watchdog renews the lease")
	ok("renew")
	alive := expect[*rlockd.KeepSessionAliveResponse](200)(client.KeepSessionAliveWithResponse(
		ctx, s.id, &rlockd.KeepSessionAliveParams{SessionToken: s.token},
		rlockd.KeepAliveFields{Held: &[]rlockd.LeaseId{lease.LeaseId}})).JSON200
	check(alive.Leases != nil && len(*alive.Leases) == 1 &&
		(*alive.Leases)[0].LeaseId == lease.LeaseId, "its lease")
	check(alive.Lost != nil && len(*alive.Lost) == 0, "no losses")
	ok("keep-alive")

	released := expect[*rlockd.ReleaseLockResponse](200)(client.ReleaseLockWithResponse(ctx,
		name, &rlockd.ReleaseLockParams{LeaseToken: holder.LeaseToken})).JSON200
	check(released.HoldCount == 0, "no holds left")
	ok("release")
	ended := expect[*rlockd.AcquireLockResponse](410)(
		client.AcquireLockWithResponse(ctx, name, &holder, body)).ApplicationproblemJSON410
	check(*ended.Reason == rlockd.ProblemReasonReleased, "the reason")
	ok("ended")
}

func look(name string, lease *rlockd.Lease) {
	state := expect[*rlockd.GetLockResponse](200)(
		client.GetLockWithResponse(ctx, name, nil)).JSON200
	check(state.Locked && *state.Holders[0].LeaseId == lease.LeaseId, "the holder")
	check(*state.Holders[0].Note == "smoke", "the note")
	ok("look")
	page := expect[*rlockd.ListLocksResponse](200)(client.ListLocksWithResponse(ctx,
		&rlockd.ListLocksParams{Prefix: pointer("go/")})).JSON200
	check(len(page.Locks) == 1 && page.Locks[0].Lock == name, "the lock is listed")
	check(page.NextCursor == nil, "one page")
	ok("list")
}

func severalLocks() {
	token := token()
	body := rlockd.MultiAcquireFields{Locks: []string{"go/2", "go/1"}}
	lease := expect[*rlockd.AcquireLocksResponse](201)(client.AcquireLocksWithResponse(ctx,
		&rlockd.AcquireLocksParams{LeaseToken: token}, body)).JSON201
	check(len(lease.Locks) == 2 && lease.Locks[0].Lock == "go/1", "both locks, in order")
	state := expect[*rlockd.GetMultiLockResponse](200)(client.GetMultiLockWithResponse(ctx,
		&rlockd.GetMultiLockParams{LeaseToken: token})).JSON200
	held, err := state.AsMultiLease()
	check(err == nil && held.LeaseId == lease.LeaseId, "held")
	expect[*rlockd.ReleaseMultiLockResponse](200)(client.ReleaseMultiLockWithResponse(ctx,
		&rlockd.ReleaseMultiLockParams{LeaseToken: token}))
	ok("several-locks")
}

func semaphore() {
	const name = "go/pool"
	expect[*rlockd.CreateSemaphoreResponse](201)(client.CreateSemaphoreWithResponse(ctx, name,
		rlockd.CreateSemaphoreFields{Permits: 3}))
	taken := expect[*rlockd.AcquireSemaphoreResponse](200)(client.AcquireSemaphoreWithResponse(
		ctx, name, nil, rlockd.AcquireSemaphoreFields{Permits: pointer(2)})).JSON200
	check(taken.Available == 1, "one permit left")
	given := expect[*rlockd.ReleaseSemaphoreResponse](200)(client.ReleaseSemaphoreWithResponse(
		ctx, name, nil, rlockd.ReleaseSemaphoreFields{})).JSON200
	check(given.Permits == 1 && given.Available == 2, "one permit given")
	gone := expect[*rlockd.DeleteSemaphoreResponse](200)(
		client.DeleteSemaphoreWithResponse(ctx, name)).JSON200
	check(gone.Deleted, "deleted")
	ok("semaphore")
}

func permit(s session) {
	const name = "go/gpu"
	holder := rlockd.AcquirePermitParams{LeaseToken: token(), SessionToken: &s.token}
	expect[*rlockd.CreatePermitSemaphoreResponse](201)(client.CreatePermitSemaphoreWithResponse(
		ctx, name, rlockd.CreateSemaphoreFields{Permits: 2}))
	taken := expect[*rlockd.AcquirePermitResponse](201)(client.AcquirePermitWithResponse(ctx,
		name, &holder, rlockd.AcquirePermitFields{})).JSON201
	check(taken.Available == 1 && taken.Watchdog, "one permit left")
	expect[*rlockd.RenewPermitResponse](200)(client.RenewPermitWithResponse(ctx, name,
		&rlockd.RenewPermitParams{LeaseToken: holder.LeaseToken},
		rlockd.RenewFields{TtlMs: pointer(60000)}))
	semaphore := expect[*rlockd.GetPermitSemaphoreResponse](200)(
		client.GetPermitSemaphoreWithResponse(ctx, name)).JSON200
	check(*semaphore.Holders[0].LeaseId == taken.LeaseId, "its holder")
	expect[*rlockd.ReleasePermitResponse](200)(client.ReleasePermitWithResponse(ctx, name,
		&rlockd.ReleasePermitParams{LeaseToken: holder.LeaseToken}))
	ok("permit")
}

func latch() {
	const name = "go/ready"
	made := expect[*rlockd.CreateLatchResponse](201)(client.CreateLatchWithResponse(ctx, name,
		rlockd.CreateLatchFields{Count: 9007199254740991})).JSON201
	check(made.Count == 9007199254740991, "the greatest count")
	key := token()
	for range 2 {
		counted := expect[*rlockd.CountDownResponse](200)(client.CountDownWithResponse(ctx,
			name, &rlockd.CountDownParams{IdempotencyKey: &key})).JSON200
		check(counted.Count == 9007199254740990, "counted once")
	}
	seen := expect[*rlockd.GetLatchResponse](200)(client.GetLatchWithResponse(ctx, name,
		&rlockd.GetLatchParams{WaitMs: pointer(50)})).JSON200
	check(seen.Count == 9007199254740990, "seen")
	expect[*rlockd.DeleteLatchResponse](200)(client.DeleteLatchWithResponse(ctx, name))
	ok("latch")
}
