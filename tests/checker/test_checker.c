/* Each rule has a history that breaks it and no other, and the good ones break none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/checker/check.h"
#include "tests/checker/lines.h"

static const struct {
    const char *name, *rule, *lines;
} histories[] = {
    /* ---- good */
    {"one after the other", NULL,
     LOCK("a", 0, 5, 1) WRITE("a", 6, 1, true) RELEASE("a", 10, 15) LOCK("b", 20, 25, 2)
         WRITE("b", 26, 2, true) WRITE("a", 27, 1, false) RELEASE("b", 30, 35)},
    {"a hand-over while the release is under way", NULL,
     LOCK("a", 0, 5, 1) RELEASE("a", 10, 25) LOCK("b", 20, 22, 2)},
    {"a lease that ended by itself", NULL,
     LOCK("a", 0, 5, 1) LOCK("b", 1001, 1005, 2)
         OP("renew", "a", 1100, 1105, "ended", ",\"status\":410,\"reason\":\"expired\"")},
    {"readers share", NULL, READ("a", 0, 5, 1) READ("b", 10, 15, 2) READ("c", 20, 25, 3)},
    {"an owner again", NULL,
     SESSION("session-open", 0, 1, "ok") MINE("a", 2, 5, 1) MINE("b", 10, 15, 2)
         RELEASE("a", 20, 25) MINE("c", 30, 35, 2)},
    {"an owner again, whose first lease got no answer", NULL,
     FAULT("F9", 0, 50, 1) SESSION("session-open", 0, 1, "ok")
         OP("acquire", "a", 2, 40, "unknown", OF_OWNER("read")) LISTING("a", 6, 9, 1000)
             READ("r", 10, 15, 8) OP("acquire", "b", 20, 25, "ok",
                                     OF_OWNER("read") ",\"status\":201,\"remaining_ms\":900,"
                                                      "\"hold_count\":2,\"token\":7")},
    {"two owners after Redis lost its data", NULL,
     LOCK("a", 0, 5, 1) FAULT("F4", 50, 90, 1, ",\"loses_data\":true") LOCK("b", 100, 105, 2)},
    {"a wait that the release ended", NULL,
     LOCK("a", 0, 5, 1) RELEASE("a", 500, 505) WAIT("lock", "b", 10, 510, 2)},
    {"an acquire without an answer blocks until its end", NULL,
     FAULT("F9", 0, 50, 1)
         OP("acquire", "a", 0, 40, "unknown", ",\"kind\":\"lock\",\"ttl_ms\":1000")
             WAIT("lock", "b", 50, 1100, 2)},
    {"Redisson between others", NULL,
     LOCK("a", 0, 5, 1) RELEASE("a", 10, 15) JAVA("acquire", "j", 8, 20, "ok")
         JAVA("release", "j", 30, 35, "ok") LOCK("b", 36, 40, 2)},
    {"Redisson gets no answer, and is not woken", NULL,
     JAVA("acquire", "j", 0, 900, "unknown") JAVA("acquire", "k", 9000, 13900, "not-done")},
    {"the same answer twice", NULL,
     LOCK("a", 0, 5, 1) LOCK("a", 10, 15, 1) RELEASE("a", 20, 25) RELEASE("a", 30, 35)},
    {"a grant just before its session ended", NULL,
     SESSION("session-open", 0, 1, "ok") MINE("a", 2, 20, 1)
         SESSION("session-end", 10, 15, "ok")},
    {"a place that was given up", NULL,
     "{\"type\":\"run\",\"place_ms\":15000}\n" LOCK("a", 0, 5, 1)
         OP("acquire", "b", 10, 210, "not-done",
            ",\"kind\":\"fair\",\"status\":423,\"wait_ms\":200") RELEASE("b", 220, 225)
             RELEASE("a", 900, 905) WAIT("fair", "c", 600, 910, 2)},
    {"an owner comes again before those who wait", NULL,
     SESSION("session-open", 0, 1,
             "ok") OP("acquire", "a", 2, 5, "ok",
                      ",\"kind\":\"fair\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"
                      "\"hold_count\":1,\"session\":\"S\",\"owner\":\"o\",\"token\":7")
         WAIT("fair", "c", 10, 1510, 8) OP(
             "acquire", "b", 600, 605, "ok",
             ",\"kind\":\"fair\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"
             "\"wait_ms\":900,\"hold_count\":2,\"session\":\"S\",\"owner\":\"o\",\"token\":7")
             RELEASE("a", 940, 945) RELEASE("b", 1500, 1505)},
    {"a dead place is spared after Redis was away", NULL,
     "{\"type\":\"run\",\"place_ms\":1000,\"max_ttl_ms\":3000}\n" OP(
         "acquire", "a", 0, 5, "not-done",
         ",\"kind\":\"fair\",\"status\":423,\"ttl_ms\":1000,\"wait_ms\":5")
         FAULT("F6", 2000, 4000, 1, ",\"scope\":\"redis\"") WAIT("fair", "b", 900, 4990, 3)},
    {"a place was over before Redis was away", "L2",
     "{\"type\":\"run\",\"place_ms\":1000,\"max_ttl_ms\":3000}\n" OP(
         "acquire", "a", 0, 5, "not-done",
         ",\"kind\":\"fair\",\"status\":423,\"ttl_ms\":1000,\"wait_ms\":5")
         FAULT("F6", 3500, 3600, 1, ",\"scope\":\"redis\"") WAIT("fair", "b", 3300, 9000, 3)},
    {"a writer waits for readers", NULL, READ("a", 0, 5, 1) WAIT("write", "b", 10, 1010, 2)},
    {"a failover undoes a release, and the lease ends by itself", NULL,
     LOCK("a", 0, 5, 1) FAULT("F5", 95, 120, 1, UNDOES(110)) RELEASE("a", 100, 105)
         WAIT("lock", "b", 130, 1010, 2)},
    {"a failover undoes a release, and the watchdog renews the lease", NULL,
     SESSION("session-open", 0, 1, "ok")
         OP("acquire", "a", 2, 5, "ok",
            ",\"kind\":\"lock\",\"status\":201,\"remaining_ms\":1000,\"hold_count\":1,"
            "\"session\":\"S\",\"token\":1") FAULT("F5", 95, 120, 1, UNDOES(110))
             RELEASE("a", 100, 105) SESSION("session-end", 4000, 4005, "ok")
                 WAIT("lock", "b", 130, 4010, 2)},
    {"a session that one of two masters has forgotten", NULL,
     "{\"type\":\"run\",\"watchdog_ms\":3000,\"masters\":2}\n" SESSION("session-open", 0, 1,
                                                                       "ok") LOSS(10, 20)
         WATCHED("a", 30, 35) WAIT("lock", "b", 4000, 8000, 2)},
    {"the same of the only master", "L2",
     "{\"type\":\"run\",\"watchdog_ms\":3000}\n" SESSION("session-open", 0, 1, "ok")
         LOSS(10, 20) WATCHED("a", 30, 35) WAIT("lock", "b", 4000, 8000, 2)},
    {"a lease of a quorum that a restarted server has lost", NULL,
     IN_QUORUM LOCK("a", 0, 5, 1) FAULT("F4", 10, 20, 1, ",\"restarts\":true")
         OP("renew", "a", 100, 105, "ended", ",\"status\":410,\"reason\":\"expired\"")},
    {"the same, and no server was restarted", "S2",
     IN_QUORUM LOCK("a", 0, 5, 1) FAULT("F20", 10, 20, 1)
         OP("renew", "a", 100, 105, "ended", ",\"status\":410,\"reason\":\"expired\"")},
    {"two holders of a quorum after a restart", "S2",
     IN_QUORUM LOCK("a", 0, 5, 1) FAULT("F4", 10, 20, 1, ",\"restarts\":true")
         LOCK("b", 100, 105, 2)},
    {"a lower token after a restart", "S1",
     IN_QUORUM LOCK("a", 0, 5, 2) RELEASE("a", 6, 8)
         FAULT("F4", 10, 20, 1, ",\"restarts\":true") LOCK("b", 100, 105, 1)},
    {"a set whose names one of two masters has forgotten", NULL,
     "{\"type\":\"run\",\"masters\":2}\n" LOCK_BOTH("a", 0, 5) LOSS(10, 20)
         BOTH("release", "a", 30, 35, "ended", NOT_KNOWN) LOOK(6500, 6505, 0, "\"a\"")
             WAIT("lock", "b", 7000, 9010, 2)},
    {"a set whose names the only master has forgotten", "L2",
     LOCK_BOTH("a", 0, 5) LOSS(10, 20) BOTH("release", "a", 30, 35, "ended", NOT_KNOWN)
         WAIT("lock", "b", 4000, 8900, 2)},
    {"a set whose names were lost before it was asked for", "T2",
     "{\"type\":\"run\",\"masters\":2}\n" LOSS(10, 20) LOCK_BOTH("a", 30, 35)
         BOTH("release", "a", 40, 45, "ended", NOT_KNOWN) LOOK(6500, 6505, 0, "\"a\"")},
    {"a lock that one of two masters has forgotten", "T2",
     "{\"type\":\"run\",\"masters\":2}\n" LONG("a", 0, 5, 1) LOSS(10, 20)
         OP("release", "a", 30, 35, "ended", NOT_KNOWN) LOOK(6500, 6505, 0, "\"a\"")},
    {"a waiter that Redis has forgotten", NULL,
     LONG("a", 0, 5, 1) LOSS(10, 20) LONG("c", 30, 35, 2) LOOK(4000, 4005, 0, "\"c\"")
         RELEASE("c", 4500, 4505) WAIT("lock", "b", 6, 4510, 3)},
    {"a waiter that came after a loss and is not shown", "T2",
     LONG("a", 0, 5, 1) LOSS(10, 20) LONG("c", 30, 35, 2) LOOK(4000, 4005, 0, "\"c\"")
         RELEASE("c", 4500, 4505) WAIT("lock", "b", 40, 4510, 3)},
    {"a loss that is told, and is told once", NULL,
     SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5) KEPT(100, 105, HELD("a", 2900), "")
         FORCE(200, 205) KEPT(300, 305, "", LOST("a", "forced")) KEPT(800, 805, "", "")},
    {"a lock as it is shown", NULL,
     LOCK("a", 0, 5, 1) LOOK(2000, 2005, 0, "") LOCK("b", 3000, 3005, 2)
         LOOK(3500, 3505, 0, "\"b\"")},
    {"as much as there may be", NULL, LIMIT(999, 1000, true) LIMIT(1000, 1000, false)},
    {"a contender that gets its turn", NULL,
     CONTENDS("a", 0, 1400, 423) CONTENDS("b", 1450, 1900, 201) CONTENDS("c", 2000, 3400, 423)},
    /* ---- S1 */
    {"tokens fall for an owner that held nothing", "S1",
     SESSION("session-open", 0, 1, "ok")
         OP("acquire", "a", 2, 5, "not-done", OF_OWNER("read") ",\"status\":423")
             READ("r", 10, 15, 8) OP("acquire", "b", 20, 25, "ok",
                                     OF_OWNER("read") ",\"status\":201,\"remaining_ms\":900,"
                                                      "\"hold_count\":1,\"token\":7")},
    {"tokens fall", "S1", LOCK("a", 0, 5, 2) RELEASE("a", 10, 15) LOCK("b", 20, 25, 1)},
    {"tokens fall after Redis lost its data", "S1",
     LOCK("a", 0, 5, 9) FAULT("F4", 50, 90, 1, ",\"loses_data\":true")
         LOCK("b", 1100, 1105, 1)},
    {"two grants with one token", "S1",
     LOCK("a", 0, 30, 1) RELEASE("a", 31, 35) LOCK("b", 20, 50, 1)},
    {"the resource refuses a holder", "S1", LOCK("a", 0, 5, 1) WRITE("a", 6, 1, false)},
    /* ---- S2 */
    {"two holders", "S2", LOCK("a", 0, 5, 1) LOCK("b", 20, 25, 2)},
    {"a reader beside a writer", "S2", LOCK("a", 0, 5, 1) READ("b", 20, 25, 2)},
    {"two holders, and the loss of data was later", "S2",
     LOCK("a", 0, 5, 1) LOCK("b", 20, 25, 2) FAULT("F4", 50, 90, 1, ",\"loses_data\":true")},
    {"more holders than permits", "S2",
     "{\"type\":\"run\",\"permits\":{\"L\":1}}\n" LOCK("a", 0, 5, 0) LOCK("b", 20, 25, 0)},
    {"over before its time", "S2",
     LOCK("a", 0, 5, 1)
         OP("renew", "a", 100, 105, "ended", ",\"status\":410,\"reason\":\"expired\"")},
    {"a keep-alive lists what another one holds", "S2",
     OP("acquire", "a", 0, 4, "unknown", ",\"kind\":\"lock\",\"ttl_ms\":900,\"session\":\"S\"")
         FAULT("F9", 0, 4, 1) SESSION("session-open", 0, 1, "ok") LISTING("a", 5, 6, 800)
             LOCK("b", 20, 25, 2)},
    /* ---- S3 */
    {"a stranger releases", "S3", RELEASE("x", 0, 5) LOCK("x", 10, 15, 1)},
    {"a stranger renews", "S3", RENEW("x", 0, 5)},
    {"a spent token acquires", "S3",
     LOCK("a", 0, 5, 1) RELEASE("a", 10, 15) LOCK("a", 20, 25, 1)},
    {"a repetition gets another token", "S3", LOCK("a", 0, 5, 1) LOCK("a", 10, 15, 2)},
    {"a repetition counts", "S3",
     SESSION("session-open", 0, 1, "ok") MINE("a", 2, 5, 1) MINE("a", 10, 15, 2)},
    {"a hold is not counted", "S3",
     SESSION("session-open", 0, 1, "ok") MINE("a", 2, 5, 1) MINE("b", 10, 15, 1)},
    {"one read counts twice", "S3",
     OP("acquire", "a", 0, 5, "ok",
        ",\"kind\":\"read\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"
        "\"hold_count\":2,\"token\":1")},
    /* ---- S4 */
    {"a grant for a session that was ended", "S4",
     SESSION("session-open", 0, 1, "ok") SESSION("session-end", 10, 15, "ok")
         MINE("a", 20, 25, 1)},
    {"a grant for a session that ended while the request waited", "S4",
     LOCK("z", 0, 5, 1) SESSION("session-open", 0, 1, "ok") SESSION("session-end", 20, 25, "ok")
         RELEASE("z", 900, 905)
             OP("acquire", "a", 10, 907, "ok",
                ",\"kind\":\"lock\",\"ttl_ms\":1000,\"remaining_ms\":1000,\"wait_ms\":5000,"
                "\"session\":\"S\",\"token\":2,\"hold_count\":1")},
    {"a grant for a session that is over", "S4",
     SESSION("session-open", 0, 1, "ok") MINE("a", 6500, 6505, 1)},
    {"a grant for a session that is over but for a clock that went back", NULL,
     SESSION("session-open", 0, 1, "ok") FAULT("F11", 3000, 6600, 1, ",\"loses_data\":true")
         MINE("a", 6500, 6505, 1)},
    /* ---- S5 */
    {"a renewal of what another one holds", "S5",
     LOCK("a", 0, 5, 1) LOCK("b", 1010, 1015, 2) RENEW("a", 1004, 1030)},
    {"a renewal of what is over", "S5", LOCK("a", 0, 5, 1) RENEW("a", 1100, 1105)},
    {"a release of what is over", "S5", LOCK("a", 0, 5, 1) RELEASE("a", 1100, 1105)},
    {"a release that is repeated when its lease would be over", NULL,
     LOCK("a", 0, 5, 1) RELEASE("a", 100, 105) RELEASE("a", 1100, 1105)},
    {"Redisson holds beside another one", "S2",
     JAVA("acquire", "j", 0, 5, "ok") LOCK("a", 10, 15, 2)},
    {"Redisson's lease is over too early", "S2",
     JAVA("acquire", "j", 0, 5, "ok") JAVA("renew", "j", 500, 505, "ended")},
    /* ---- S7, T1, T2 */
    {"the watchdog lets a lease end", "S7",
     SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5)
         KEPT(4000, 4005, "", LOST("a", "expired"))},
    {"the same, and a renewal finds it", "S7",
     SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5)
         OP("renew", "a", 4000, 4005, "ended", ",\"status\":410,\"reason\":\"expired\"")
             KEPT(4100, 4105, "", "")},
    {"a loss that is not told", "T1",
     "{\"type\":\"run\",\"watchdog_ms\":3000}\n" SESSION("session-open", 0, 1, "ok")
         WATCHED("a", 2, 5) FORCE(200, 205) KEPT(300, 305, "", "") KEPT(2300, 2305, "", "")},
    {"a loss that is told when the watchdog has found it", NULL,
     "{\"type\":\"run\",\"watchdog_ms\":3000}\n" SESSION("session-open", 0, 1, "ok")
         WATCHED("a", 2, 5) FORCE(200, 205) KEPT(300, 305, "", "")
             KEPT(2000, 2005, "", LOST("a", "unknown"))},
    {"a loss that is told twice", "T1",
     SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5) FORCE(200, 205)
         KEPT(300, 305, "", LOST("a", "forced")) KEPT(800, 805, "", LOST("a", "forced"))},
    {"a loss that is told twice, beside a fault", NULL,
     FAULT("F6", 400, 700, 1, ",\"scope\":\"redis\"") SESSION("session-open", 0, 1, "ok")
         WATCHED("a", 2, 5) FORCE(200, 205) KEPT(300, 305, "", LOST("a", "forced"))
             KEPT(800, 805, "", LOST("a", "forced"))},
    {"a loss that is told twice, beside a fault of a minority", "T1",
     FAULT("F6", 400, 700, 1, ",\"scope\":\"redis\",\"minority\":true")
         SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5) FORCE(200, 205)
             KEPT(300, 305, "", LOST("a", "forced")) KEPT(800, 805, "", LOST("a", "forced"))},
    {"a loss of what is held", "T1",
     SESSION("session-open", 0, 1, "ok") WATCHED("a", 2, 5)
         KEPT(300, 305, "", LOST("a", "forced"))},
    {"a holder that is not shown", "T2", LOCK("a", 0, 5, 1) LOOK(100, 105, 0, "")},
    {"a holder that holds nothing", "T2", LOCK("a", 0, 5, 1) LOOK(2500, 2505, 0, "\"a\"")},
    {"a waiter too many", "T2", LOCK("a", 0, 5, 1) LOOK(100, 105, 1, "\"a\"")},
    {"a waiter that is not shown", "T2",
     LOCK("a", 0, 5, 1) RENEW("a", 900, 905) LOOK(1200, 1205, 0, "\"a\"")
         RELEASE("a", 1800, 1805) WAIT("lock", "b", 10, 1810, 2)},
    /* ---- S6, L2, L5 */
    {"nobody is woken by a release", "L2",
     LOCK("a", 0, 5, 1) RELEASE("a", 500, 505) WAIT("lock", "b", 10, 1100, 2)},
    {"nobody is woken by an end", "L2", LOCK("a", 0, 5, 1) WAIT("lock", "b", 10, 2600, 2)},
    {"a reader waits although others read", "L2",
     OP("acquire", "w", 0, 5, "ok",
        ",\"kind\":\"write\",\"status\":201,\"ttl_ms\":1000,\"remaining_ms\":1000,"
        "\"hold_count\":1,\"token\":1") RELEASE("w", 100, 105) READ("a", 110, 115, 2)
         WAIT("read", "b", 10, 900, 3)},
    {"a dead place is spared for longer", "L2",
     "{\"type\":\"run\",\"place_ms\":1000,\"max_ttl_ms\":3000}\n" OP(
         "acquire", "a", 0, 5, "not-done",
         ",\"kind\":\"fair\",\"status\":423,\"ttl_ms\":1000,\"wait_ms\":5")
         FAULT("F6", 2000, 4000, 1, ",\"scope\":\"redis\"") WAIT("fair", "b", 5900, 9990, 3)},
    {"a release after the replica took over releases nothing", "L2",
     LOCK("a", 0, 5, 1) FAULT("F5", 50, 70, 1, UNDOES(60)) RELEASE("a", 100, 105)
         WAIT("lock", "b", 80, 4000, 2)},
    {"the end of a session releases nothing", "L2",
     SESSION("session-open", 0, 1, "ok") OP("acquire", "a", 2, 5, "ok",
                                            ",\"kind\":\"lock\",\"status\":201,\"ttl_ms\":3000,"
                                            "\"remaining_ms\":3000,\"hold_count\":1,"
                                            "\"session\":\"S\",\"token\":1")
         SESSION("session-end", 100, 105, "ok") WAIT("lock", "b", 10, 1000, 2)},
    {"an acquire without an answer is kept", "L2",
     FAULT("F9", 0, 50, 1)
         OP("acquire", "a", 0, 40, "unknown", ",\"kind\":\"lock\",\"ttl_ms\":1000")
             WAIT("lock", "b", 10000, 14900, 2)},
    {"a waiter that hung up keeps a grant", "L2",
     LOCK("z", 0, 5, 1) RELEASE("z", 600, 605) OP(
         "acquire", "a", 10, 300, "abandoned",
         ",\"kind\":\"lock\",\"ttl_ms\":1000,\"wait_ms\":900") WAIT("lock", "b", 20, 1610, 2)},
    {"a waiter that hung up when it may have been granted", NULL,
     OP("acquire", "a", 0, 2, "abandoned", ",\"kind\":\"lock\",\"ttl_ms\":1000,\"wait_ms\":900")
         WAIT("lock", "b", 10, 1010, 2)},
    /* ---- L1, L3, L4, and what stays bounded */
    {"nobody gets the lock any more", "L1",
     OP("acquire", "z", 0, 1, "ok", ",\"status\":201,\"ttl_ms\":60000,\"remaining_ms\":60000")
         OP("acquire", "a", 2, 900, "not-done",
            ",\"status\":423,\"wait_ms\":900,\"sweep\":true")},
    {"no answer", "L3", OP("acquire", "a", 0, 900, "unknown", ",\"ttl_ms\":100")},
    {"a late answer", "L3",
     OP("acquire", "z", 0, 1, "ok", ",\"status\":201,\"ttl_ms\":60000,\"remaining_ms\":60000")
         OP("acquire", "a", 2, 8000, "not-done", ",\"status\":423,\"wait_ms\":1000")},
    {"an answer that is no problem document", "L3",
     OP("acquire", "a", 0, 9, "not-done", ",\"status\":503,\"malformed\":\"no outcome\"")},
    {"the last in the queue is first", "L4",
     LOCK("a", 0, 5, 1) RELEASE("a", 900, 905) WAIT("fair", "b", 10, 1790, 3)
         WAIT("fair", "c", 600, 910, 2) RELEASE("c", 1600, 1605)},
    {"a place is lost between two requests", "L4",
     "{\"type\":\"run\",\"place_ms\":15000}\n" LOCK("a", 0, 5, 1)
         OP("acquire", "b", 10, 210, "not-done",
            ",\"kind\":\"fair\",\"status\":423,\"wait_ms\":200") RELEASE("a", 900, 905)
             WAIT("fair", "c", 600, 910, 2) RELEASE("c", 1600, 1605)
                 WAIT("fair", "b", 300, 1610, 3)},
    {"two sessions wait for each other", "L6",
     HOLDS("K", "a", "s", 1) HOLDS("L", "b", "t", 1) BLOCKED("L", "c", "s", 10, 9010)
         BLOCKED("K", "d", "t", 20, 9020)},
    {"one of two sessions that wait for each other is refused", NULL,
     HOLDS("K", "a", "s", 1) HOLDS("L", "b", "t", 1) BLOCKED("L", "c", "s", 10, 9010)
         BLOCKED("K", "d", "t", 20, 1120)},
    {"a contender without a turn", "L7",
     CONTENDS("a", 0, 1400, 423) CONTENDS("b", 1450, 2800, 423)},
    {"a bystander that waits", "L8", BYSTANDER("a", 0, 900)},
    {"a bystander that waits for strangers", "L8",
     FAULT("a flood of strangers", 0, 6000, 9, ",\"scope\":\"redis\"")
         BYSTANDER("a", 1000, 1600)},
    {"one more than there may be", "B2", LIMIT(1000, 1000, true)},
    {"less than there may be", "B2", LIMIT(999, 1000, false)},
    {"a waiter that spins", "B1",
     "{\"type\":\"rate\",\"t_begin\":0,\"t_end\":1000000000,\"scripts\":8000,"
     "\"requests\":10,\"waiters\":6}\n"},
    {"two servers of a quorum that a waiter asks too often", "B1", RATE(0, 1, 8000, 10, 8000)},
    {"a server of a quorum that is asked too often for long", "B1",
     RATE(0, 1, 900, 10, 10) RATE(1, 2, 900, 10, 10)},
    {"a server of a quorum that catches up", NULL,
     RATE(0, 1, 0, 10, 10) RATE(1, 2, 0, 10, 10) RATE(2, 3, 700, 10, 10)},
    {"descriptors are left", "LEAK",
     "{\"type\":\"leak\",\"subject\":\"descriptors\",\"base\":20,\"now\":29,\"allowed\":2}\n"},
    {"a count that nobody looked at", "VACUOUS",
     "{\"type\":\"leak\",\"subject\":\"permits held at once\",\"checks\":0}\n"},
    {"a fault that hurts nothing", "VACUOUS", FAULT("F13", 0, 50, 0)},
};

static void check_text(const char *lines, struct report *report, struct history *history)
{
    char text[8192], why[80];

    snprintf(text, sizeof text, "%s%s",
             strncmp(lines, "{\"type\":\"run\"", 13) ? "{\"type\":\"run\"}\n" : "", lines);
    FILE *in = fmemopen(text, strlen(text), "r"), *out = tmpfile();
    assert_non_null(in);
    assert_non_null(out);
    report_init(report, history, out);
    if (!history_read(history, in, why, sizeof why))
        fail_msg("%s", why);
    check_all(report, history);
    fclose(in);
    rewind(out);
}

static void show(FILE *out)
{
    char line[512];

    while (fgets(line, sizeof line, out))
        print_message("    %s", line);
}

static void each_history_breaks_its_rule_and_no_other(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof histories / sizeof *histories; i++) {
        const char *rule = histories[i].rule;
        struct history history;
        struct report report;
        check_text(histories[i].lines, &report, &history);
        int64_t broken = rule ? report_broken(&report, rule) : 0;
        if ((rule && !broken) || report_all_broken(&report) != broken) {
            print_message("\"%s\" should break %s:\n", histories[i].name,
                          rule ? rule : "nothing");
            show(report.out);
            wrong++;
        }
        fclose(report.out);
        report_release(&report);
        history_free(&history);
    }
    assert_int_equal(wrong, 0);
}

static void an_empty_run_is_vacuous(void **state)
{
    struct history history = {.is_started = true};
    struct report report;

    (void)state;
    FILE *out = tmpfile();
    assert_non_null(out);
    report_init(&report, &history, out);
    report.bounds.min_requests = report.bounds.min_grants = report.bounds.min_waits = 1;
    check_all(&report, &history);
    assert_int_equal(report_broken(&report, "VACUOUS"), 3);
    fclose(out);
    report_release(&report);
}

static void what_is_no_history_is_refused(void **state)
{
    static const char *const texts[] = {
        "{\"type\":\"op\",\"op\":\"acquire\"}\n", "nonsense\n", "{\"type\":\"other\"}\n",
        "{\"type\":\"leak\",\"subject\":\"no run before it\"}\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct history history;
        char text[80], why[80];
        snprintf(text, sizeof text, "%s", texts[i]);
        FILE *in = fmemopen(text, strlen(text), "r");
        assert_non_null(in);
        assert_false(history_read(&history, in, why, sizeof why));
        fclose(in);
        history_free(&history);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_history_breaks_its_rule_and_no_other),
        cmocka_unit_test(an_empty_run_is_vacuous),
        cmocka_unit_test(what_is_no_history_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
