-- A page of a session's notes, or of its losses that no answer has named yet.
-- KEYS hash
-- ARGV cursor
-- REPLY [] cursor entries
-- REPLY [entry] ref value
-- sync no
--
-- Reply  the cursor of the next page, "0" behind the last one. A ref may be in two pages
-- modules
return lib.session_home.page(hash, cursor)
