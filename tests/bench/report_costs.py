"""results.md: what TLS, a log line, a script, a replica, a quorum and busy polling cost;
workers and masters with a quota."""
from operations import WHAT
from report_contention import FIGURES, KINDS
from report_table import number, rows_of, table
from topologies import BROADCAST

CYCLES = ("cycles_per_s", "p99_us", "cpu_us", "redis_cpu_us", "both_cpu_us")
HEAD = ["", "cycles/s", "p99 µs", "CPU µs/request", "Redis CPU µs/request", "both"]
LOGGED = {"logged": "every request is logged", "unlogged": "none is logged"}


def logged_lines(rows):
    return [[name, *(number(rows[row][column]) for column in CYCLES)]
            for row, name in LOGGED.items() if row in rows]


def tls_lines(rows):
    return [[f"{name}, {connections} connections",
             *(number(rows[f"{row} {connections}"][column]) for column in CYCLES)]
            for row, name in (("plain", "plain HTTP"), ("tls", "TLS"))
            for connections in (16, 64) if f"{row} {connections}" in rows]


def limited_lines(rows):
    return [[cells[0].replace("limited", "workers"), *cells[1:]]
            for cells in rows_of(rows, "limited ", CYCLES)]


def contended_lines(rows):
    return [["{}, {}: workers {}".format(KINDS[cells[0].split()[1]], *cells[0].split()[2:]),
             *cells[1:]]
            for cells in rows_of(rows, "limited-contended ", (*FIGURES, "scripts",
                                                              "passed_percent"))]


def master_lines(rows):
    return [[f"{count} master{'s' if count != '1' else ''}, messages {BROADCAST[broadcast]}",
             *cells]
            for count, broadcast, cells in
            ((*cells[0].split()[1:], cells[1:]) for cells in
             rows_of(rows, "masters ", ("cycles_per_s", "p50_us", "p99_us", "cpu_us",
                                        "redis_cpu_us", "master_percent")))]


def replica_lines(rows):
    return [[f"`--sync-replicas {replicas}`, {connections} connections", *cells]
            for _, replicas, connections, cells in
            ((*cells[0].split(), cells[1:]) for cells in
             rows_of(rows, "replicas ", ("cycles_per_s", "p50_us", "p99_us", "redis_cpu_us")))]


def quorum_lines(rows, what, columns, compared):
    """Each row ends in `compared` as multiples of those with a single Redis."""
    lines = []
    for row, *cells in rows_of(rows, f"quorum-{what} ", columns):
        _, count, clients = row.split()
        single = rows[f"quorum-{what} 1 {clients}"]
        name = "a single Redis" if count == "1" else f"a quorum of {count}"
        lines.append([f"{name}, {clients}", *cells,
                      *(number(rows[row][figure] / single[figure]) for figure in compared)])
    return lines


def polling_lines(rows):
    return [[cells[0].replace("polling", "`--busy-poll-us`"), *cells[1:]]
            for cells in rows_of(rows, "polling ", ("per_s", "p50_us", "p99_us", "cpu_us",
                                                    "redis_cpu_us"))]


def script_lines(rows):
    what = {"nothing": "`return 1`", **WHAT}
    return [[what[cells[0].split()[1]], *cells[1:]]
            for cells in rows_of(rows, "script ", ("us", "grants", "scripts"))]


GROWN = {"cycle": "acquire + release", "look": "look", "keep_alive": "keep-alive",
         "list": "page of 100 locks"}


def growth_lines(rows):
    """A line for each population and operation."""
    lines = []
    for row, figures in rows.items():
        if not row.startswith("beside "):
            continue
        _, what, count = row.split()
        for kind, name in GROWN.items():
            lines.append([f"{int(count):,} {what}: {name}",
                          *(number(figures[f"{kind}_{figure}"])
                            for figure in ("p99_us", "cpu_us", "redis_cpu_us")),
                          *(number(figures[name]) for name in
                            ("duties_percent", "redis_duties_percent", "rlockd_mib",
                             "redis_mib"))])
    return lines


def sections(rows):
    out = ["## Growth", "",
           "One request after the other, beside locks that are held, open sessions, or waiters "
           "of long standing. Duties: what rlockd and Redis do by themselves, in percent of a "
           "core; the CPU of an operation is without it. Memory: of rlockd what it grew by, of "
           "Redis all.", ""]
    out += table(["", "p99 µs", "CPU µs", "Redis CPU µs", "rlockd's duties %",
                  "Redis' duties %", "rlockd MiB", "Redis MiB"],
                 growth_lines(rows))
    out += ["## Workers with a tenth of a core each, 64 connections", ""]
    out += table(HEAD, limited_lines(rows))
    out += ["## Contenders for one lock, workers with a tenth of a core each", "",
            "Each worker adds a tenth of a core: rlockd as a whole gets as "
            "many tenths as it has workers, every 10 ms, and any of its workers may use them. "
            "Load and Redis have no limit. Each row takes 1 s. Two contenders are on different "
            "workers, where there are several. The turns of one lock come one after the other, "
            "so that a second worker adds CPU but no turns beside each other.", ""]
    out += table(["", "turns/s", "wait p50 µs", "wait p99 µs", "Jain", "CPU µs/turn",
                  "Redis CPU µs/turn", "scripts/turn", "passed on, %"], contended_lines(rows))
    out += ["## Masters of a cluster with a tenth of a core each, 64 connections for each", ""]
    out += ["Each connection has one lock, and so one master; of every 10 ms each master "
            "gets 1 ms. Messages to all nodes cost every other master a part of that.", ""]
    out += table(["", "cycles/s", "p50 µs", "p99 µs", "CPU µs/request", "Redis CPU µs/request",
                  "of a core for each master, %"], master_lines(rows))
    out += ["## A primary with one replica", ""]
    out += table(["", "cycles/s", "p50 µs", "p99 µs", "Redis CPU µs/request"],
                 replica_lines(rows))
    out += ["## A quorum of independent masters", "",
            "Cycles of connections with a lock each, then turns of contenders for one lock. "
            "Every master runs every request: load, rlockd and three or five servers share "
            "the cores.", ""]
    out += table([*HEAD[:2], "p50 µs", *HEAD[2:5], "× cycles/s", "× p50", "× CPU",
                  "× Redis CPU"],
                 quorum_lines(rows, "cycles", ("cycles_per_s", "p50_us", "p99_us", "cpu_us",
                                               "redis_cpu_us"),
                              ("cycles_per_s", "p50_us", "cpu_us", "redis_cpu_us")))
    out += table(["contenders", "turns/s", "wait p50 µs", "wait p99 µs", "Jain", "CPU µs/turn",
                  "Redis CPU µs/turn", "× turns/s", "× wait p99", "× CPU"],
                 quorum_lines(rows, "contended", FIGURES,
                              ("turns_per_s", "p99_us", "client_cpu_us")))
    out += ["## Busy polling", "",
            "Cycles of connections with a lock each, and turns of contenders for one lock.", ""]
    out += table(["", "cycles or turns/s", "p50 µs", "p99 µs", "CPU µs each",
                  "Redis CPU µs each"], polling_lines(rows))
    out += ["## Log lines, 64 connections", ""]
    out += table(HEAD, logged_lines(rows))
    out += ["## TLS, on connections that stay", ""]
    out += table(HEAD, tls_lines(rows))
    out += ["## Scripts: Redis' time in them for a request, asked for one after the other", ""]
    return out + table(["", "µs", "grants", "scripts/request"], script_lines(rows))
