-- Forgets losses of which a keep-alive has told the client. A node that was away when the
-- losses were noted has the notes of the leases still: they are forgotten, too, so that no
-- visit finds the losses again.
--
-- KEYS as ../session_keep_alive.lua
-- ARGV refs...
-- sync no
--
-- The first write is one that Redis allows when memory is short.
-- modules

for i = ARG_REFS, #ARGV do
  call('hdel', lost, ARGV[i])
  call('zrem', due, ARGV[i])
  lib.session_home.forget(notes, ARGV[i])
end
return 0
