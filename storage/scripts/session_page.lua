-- A page of a session's notes, or of what it lost and was not told of yet.
-- KEYS hash
-- ARGV cursor
-- sync no
--
-- Reply  cursor of the next page, "0" behind the last one; [ref, value, ...]. A ref may be in
--        two pages
-- modules
return lib.session_home.page(hash, cursor)
