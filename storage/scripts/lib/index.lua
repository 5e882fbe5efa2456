-- The indices: sorted sets of what the watchdog visits -> epoch ms of the next visit.
local KEEP_MS = '2592000000' -- 30 days: of front ends that never come back

return {KEEP_MS = KEEP_MS}
