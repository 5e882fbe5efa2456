-- Withdraws one attempt on a semaphore or a latch, because its client hung up before the answer
-- or its outcome is unknown: the permits that it acquired, or its entry among the waiters. Does
-- nothing when a later request with the key was answered with these permits.
--
-- KEYS semaphore idempotency waiters
-- ARGV attempt
-- sync no
--
--   idempotency  the effect of the request's idempotency key
--
-- Reply  1: permits were released; 0: the attempt had acquired none
-- modules
call('zrem', waiters, attempt) -- a write that is always allowed
local past = lib.counter.recall(idempotency)
if not past or past.attempt ~= attempt then return 0 end
call('del', idempotency)
if past.answer == '' or past.taken == '0' then return 0 end
-- A semaphore that is gone gets no permits: they would make it anew, without a TTL.
if call('exists', semaphore) == 0 then return 0 end
lib.permit.add_free(semaphore, past.taken)
return 1
