-- The function of ../../lib/fair_empty.lua for a node: a quorum has no fair locks, and no other
-- client may have one there.
local function is_empty(lock) return call('exists', lib.keys.queue_of(lock)) == 0 end

return {is_empty = is_empty}
