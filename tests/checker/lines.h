/* The lines of a history, as a test writes them. Times are ms here, and ns in a history. */
#ifndef RLOCKD_TESTS_CHECKER_LINES_H
#define RLOCKD_TESTS_CHECKER_LINES_H

/* A line of a history: a whole number of ms becomes 5e6 ns. */
#define OP(verb, lease, from, to, outcome, ...)                                                \
    "{\"type\":\"op\",\"op\":\"" verb "\",\"lock\":\"L\",\"lease\":\"" lease                   \
    "\",\"front\":0,\"t_inv\":" #from "e6,\"t_ret\":" #to "e6,\"outcome\":\"" outcome          \
    "\"" __VA_ARGS__ "}\n"
#define LOCK(lease, from, to, token)                                                           \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"lock\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"              \
       "\"hold_count\":1,\"token\":" #token)
/* Of a lock that lasts for long. */
#define LONG(lease, from, to, token)                                                           \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"lock\",\"status\":201,\"ttl_ms\":9000,\"remaining_ms\":9000,"              \
       "\"token\":" #token)
#define WAIT(kind, lease, from, to, token)                                                     \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"" kind "\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"          \
       "\"wait_ms\":5000,\"hold_count\":1,\"token\":" #token)
/* A lease of two locks, and the answer that nothing is known of it. */
#define BOTH(verb, lease, from, to, outcome, ...)                                              \
    "{\"type\":\"op\",\"op\":\"" verb "\",\"locks\":[\"L\",\"M\"],\"lease\":\"" lease          \
    "\",\"front\":0,\"t_inv\":" #from "e6,\"t_ret\":" #to "e6,\"outcome\":\"" outcome          \
    "\"" __VA_ARGS__ "}\n"
#define LOCK_BOTH(lease, from, to)                                                             \
    BOTH("acquire", lease, from, to, "ok",                                                     \
         ",\"kind\":\"lock\",\"status\":201,\"ttl_ms\":9000,\"remaining_ms\":9000,"            \
         "\"tokens\":[1,1]")
#define NOT_KNOWN ",\"status\":410,\"reason\":\"unknown\""
/* Of a session that refuses: a lock that it holds for long, and a wait for another lock. */
#define REFUSES(lock, lease, session, from, to, outcome, ...)                                  \
    "{\"type\":\"op\",\"op\":\"acquire\",\"lock\":\"" lock "\",\"lease\":\"" lease             \
    "\",\"session\":\"" session                                                                \
    "\",\"refuses\":true,\"kind\":\"lock\",\"front\":0,\"t_inv\":" #from "e6,\"t_ret\":" #to   \
    "e6,\"outcome\":\"" outcome "\"" __VA_ARGS__ "}\n"
#define HOLDS(lock, lease, session, token)                                                     \
    REFUSES(lock, lease, session, 0, 5, "ok",                                                  \
            ",\"status\":201,\"ttl_ms\":20000,\"remaining_ms\":20000,"                         \
            "\"hold_count\":1,\"token\":" #token)
#define BLOCKED(lock, lease, session, from, to)                                                \
    REFUSES(lock, lease, session, from, to, "not-done",                                        \
            ",\"status\":423,\"ttl_ms\":20000,\"wait_ms\":9000")
#define READ(lease, from, to, token)                                                           \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"read\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"              \
       "\"hold_count\":1,\"token\":" #token)
#define MINE(lease, from, to, holds)                                                           \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"lock\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"              \
       "\"session\":\"S\",\"owner\":\"o\",\"token\":7,\"hold_count\":" #holds)
#define OF_OWNER(kind)                                                                         \
    ",\"kind\":\"" kind "\",\"ttl_ms\":1000,\"session\":\"S\",\"owner\":\"o\""
/* Of Redisson's client. */
#define JAVA(verb, lease, from, to, outcome)                                                   \
    "{\"type\":\"op\",\"op\":\"" verb "\",\"lock\":\"L\",\"lease\":\"" lease                   \
    "\",\"kind\":\"lock\",\"t_inv\":" #from "e6,\"t_ret\":" #to "e6,\"outcome\":\"" outcome    \
    "\",\"ttl_ms\":1000,\"wait_ms\":5000,\"remaining_ms\":1000}\n"
#define RELEASE(lease, from, to) OP("release", lease, from, to, "ok", ",\"status\":200")
#define RENEW(lease, from, to)                                                                 \
    OP("renew", lease, from, to, "ok", ",\"status\":200,\"ttl_ms\":1000,\"remaining_ms\":1000")
#define SESSION(verb, from, to, outcome)                                                       \
    "{\"type\":\"op\",\"op\":\"" verb "\",\"session\":\"S\",\"front\":0,\"t_inv\":" #from      \
    "e6,\"t_ret\":" #to "e6,\"outcome\":\"" outcome                                            \
    "\",\"ttl_ms\":5000,\"remaining_ms\":5000}\n"
#define LISTING(lease, from, to, left)                                                         \
    "{\"type\":\"op\",\"op\":\"keep-alive\",\"session\":\"S\",\"front\":0,\"t_inv\":" #from    \
    "e6,\"t_ret\":" #to "e6,\"outcome\":\"ok\",\"remaining_ms\":5000,"                         \
    "\"listed\":[{\"lease\":\"" lease "\",\"remaining_ms\":" #left "}]}\n"
/* A lease that the watchdog keeps; a keep-alive that tells of all leases of its session. */
#define WATCHED(lease, from, to)                                                               \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"kind\":\"lock\",\"status\":201,\"session\":\"S\",\"remaining_ms\":3000,"            \
       "\"hold_count\":1,\"token\":1")
#define KEPT(from, to, held, lost)                                                             \
    "{\"type\":\"op\",\"op\":\"keep-alive\",\"session\":\"S\",\"front\":0,\"t_inv\":" #from    \
    "e6,\"t_ret\":" #to "e6,\"outcome\":\"ok\",\"ttl_ms\":5000,\"remaining_ms\":5000,"         \
    "\"whole\":true,\"listed\":[" held "],\"lost\":[" lost "]}\n"
#define HELD(lease, left) "{\"lease\":\"" lease "\",\"remaining_ms\":" #left "}"
#define LOST(lease, reason) "{\"lease\":\"" lease "\",\"reason\":\"" reason "\"}"
/* A second of a quorum with three servers. */
#define RATE(from, to, first, second, third)                                                   \
    "{\"type\":\"rate\",\"t_begin\":" #from "e9,\"t_end\":" #to "e9,\"scripts\":[" #first      \
    "," #second "," #third "],\"requests\":10,\"waiters\":6}\n"
#define FORCE(from, to)                                                                        \
    "{\"type\":\"op\",\"op\":\"force\",\"lock\":\"L\",\"front\":0,\"t_inv\":" #from            \
    "e6,\"t_ret\":" #to "e6,\"outcome\":\"ok\",\"status\":200}\n"
#define LOOK(from, to, waiting, holders)                                                       \
    "{\"type\":\"look\",\"lock\":\"L\",\"t_inv\":" #from "e6,\"t_ret\":" #to                   \
    "e6,\"waiters\":" #waiting ",\"holders\":[" holders "]}\n"
#define LIMIT(have, limit, grants)                                                             \
    "{\"type\":\"limit\",\"subject\":\"locks\",\"t_begin\":10e6,\"t_end\":20e6,\"had\":" #have \
    ",\"most\":" #limit ",\"granted\":" #grants "}\n"
/* Of one client, for a lock that nobody holds for long. */
#define CONTENDS(lease, from, to, number)                                                      \
    OP("acquire", lease, from, to, "not-done",                                                 \
       ",\"client\":\"c\",\"contends\":true,\"kind\":\"lock\",\"status\":" #number)
#define BYSTANDER(lease, from, to)                                                             \
    OP("acquire", lease, from, to, "ok",                                                       \
       ",\"client\":\"c\",\"bystander\":true,\"kind\":\"lock\",\"status\":201,"                \
       "\"ttl_ms\":1000,\"remaining_ms\":1000,\"hold_count\":1,\"token\":1")
#define FAULT(kind, from, to, effect, ...)                                                     \
    "{\"type\":\"fault\",\"kind\":\"" kind "\",\"t_begin\":" #from "e6,\"t_end\":" #to         \
    "e6,\"effect\":" #effect __VA_ARGS__ "}\n"
#define LOSS(from, to) FAULT("F4", from, to, 1, ",\"loses_data\":true")
#define UNDOES(until) ",\"scope\":\"redis\",\"loses_data\":true,\"undoes_until\":" #until "e6"
#define WRITE(lease, t, number, accepted)                                                      \
    "{\"type\":\"resource\",\"lock\":\"L\",\"lease\":\"" lease "\",\"t\":" #t                  \
    "e6,\"token\":" #number ",\"accepted\":" #accepted "}\n"

#define IN_QUORUM "{\"type\":\"run\",\"quorum\":3}\n"

#endif
