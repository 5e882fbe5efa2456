"""results.md and results.svg from the medians, and the README's figures."""
import report_contention
import report_costs
from report_table import rows_of, table
from svg import Chart, page

README_BEGIN, README_END = "<!-- from make bench -->\n", "<!-- to here -->\n"


UNCONTENDED = ("cycles_per_s", "p50_us", "p99_us", "cpu_us", "redis_cpu_us", "both_cpu_us",
               "redis_calls")
PEER_NAMES = {"rlockd": "rlockd", "webdis": "webdis, bare scripts",
              "etcd": "etcd, JSON gateway", "tcp-rlockd": "rlockd, Redis over TCP",
              "redisson": "Redisson, Redis over TCP", "bare": "libmicrohttpd alone"}
WITHOUT_REDIS = ("etcd", "bare")


def uncontended_lines(rows):
    lines = []
    for dialect, name in PEER_NAMES.items():
        for cells in rows_of(rows, dialect + " ", UNCONTENDED):
            connections = cells[0].split()[1]
            if dialect in WITHOUT_REDIS:
                cells[5:] = ["–"] * 3
            if dialect == "bare":
                cells[1] = "–"
            unit = "threads" if dialect == "redisson" else "connections"
            lines.append([f"{name}, {connections} {unit}", *cells[1:]])
    return lines


def targets_table(targets):
    return table(["target", "figure", "verdict"],
                 [[t["what"], t["figure"], t["verdict"]] for t in targets])


def in_readme(readme, rows):
    """The README with three figures made anew."""
    before, rest = readme.split(README_BEGIN)
    after = rest.split(README_END)[1]
    here, there = (rows[f"handoff 100{front}"]["p50_us"] / 1000 for front in ("", " second"))
    lines = [f"- {rows['rlockd 64']['cycles_per_s']:,.0f} cycles/s (acquire and release): 64 "
             "clients, a lock each",
             f"- {here:.2f} ms from a release to the answer of the next of 100 waiters, "
             f"median; {there:.2f} ms at another", "  front end",
             f"- {rows['parked 10000']['bytes_per_waiter'] / 1024:.1f} KiB for a waiter", ""]
    return before + README_BEGIN + "\n".join(lines) + README_END + after


def markdown(document):
    rows = document["rows"]
    out = ["# What `make bench` measured", "",
           f"On {document['machine']}: load, server and Redis share these cores. Medians of "
           f"{document['rounds']} rounds, in each of which every server has its turn; a row "
           f"takes {document['seconds']:g} s, or longer where turns at a lock are judged, "
           "where a master has a quota, and of the bystander. Once, after the rounds: the "
           "network that takes half a millisecond, the watchdog, growth, scripts, system "
           f"calls. Other processes took {document['others_percent']} % of a core meanwhile. "
           "A byte to a process on another core and back took "
           f"{min(document['message_us']):g} to {max(document['message_us']):g} µs, by round. "
           "[Where the time goes](../../docs/contention.md#where-the-time-goes).",
           "", "![](results.svg)", ""]
    out += targets_table(document["targets"])
    out += ["## Acquire and release, uncontended", ""]
    out += table(["", "cycles/s", "p50 µs", "p99 µs", "CPU µs/request", "Redis CPU µs/request",
                  "both", "redis.calls/cycle"], uncontended_lines(rows))
    out += ["Redisson's CPU is that of its whole JVM, in which client and program are one "
            "process. Not alike: Redis keeps nothing on disk, etcd syncs each change to it; "
            "webdis has two threads, rlockd one worker; Redisson's watchdog renews the leases "
            "of its locks, while those of rlockd have a `ttl_ms` and no session. The same "
            "holds for contenders for a lock.", ""]
    out += report_contention.sections(rows)
    out += ["## Hand-off: from release to the next one's answer", ""]
    out += table(["waiters", "p50 µs", "p99 µs"],
                 [[cells[0].replace("handoff ", "").replace("second", "on a second front end"),
                   *cells[1:]] for cells in rows_of(rows, "handoff", ("p50_us", "p99_us"))])
    out += ["## Parked waiters", ""]
    out += table(["waiters", "bytes each", "s to park all", "acquire p99 µs alone",
                  "beside them", "keep-alive p99 µs alone", "beside them"],
                 [[cells[0].replace("parked ", ""), *cells[1:]] for cells in rows_of(
                     rows, "parked", ("bytes_per_waiter", "parked_in_s", "alone_p99_us",
                                      "beside_p99_us", "keep_alive_alone_p99_us",
                                      "keep_alive_beside_p99_us"))])
    out += ["## A bystander of clients that ask for the dearest things", "",
            "Eight clients ask as fast as they can, for an ordinary lock or for these things; "
            "the bystander acquires and releases a lock of its own meanwhile.", ""]
    out += table(["they ask for", "p99 µs alone", "beside ordinary clients", "beside these",
                  "requests/s of ordinary clients", "of these"],
                 [[cells[0].replace("bystander ", ""), *cells[1:]] for cells in rows_of(
                     rows, "bystander", ("alone_p99_us", "ordinary_p99_us", "p99_us",
                                         "ordinary_per_s", "asked_per_s"))])
    out += ["## Watchdog: locks of sessions with 1,000 each, renewed every 10 s", ""]
    out += table(["locks", "renewals/s", "server, % of a core", "Redis, % of a core",
                  "Redis µs each", "late, mean ms", "late, p99 ms at most"],
                 [[cells[0].replace("watchdog ", ""), *cells[1:]] for cells in rows_of(
                     rows, "watchdog", ("renewals_per_s", "server_percent", "redis_percent",
                                        "redis_us_each", "late_mean_ms",
                                        "late_p99_ms_at_most"))])
    out += ["## Workers, and an earlier version, 64 connections", ""]
    out += table(["", "cycles/s", "p99 µs", "CPU µs/request", "Redis CPU µs/request"],
                 rows_of(rows, "workers", ("cycles_per_s", "p99_us", "cpu_us", "redis_cpu_us"))
                 + rows_of(rows, "base ", ("cycles_per_s", "p99_us", "cpu_us", "redis_cpu_us")))
    out += report_costs.sections(rows)
    out += ["## System calls of rlockd per request", ""]
    out += table(["connections", "strace", "perf"],
                 [[cells[0].replace("system calls ", ""), *cells[1:]]
                  for cells in rows_of(rows, "system calls", ("strace", "perf"))])
    out += [f"Left out: {what} ({why})." for what, why in document["left_out"]]
    return "\n".join(out).rstrip() + "\n"


# ---- the plot

COLOURS = {"rlockd": "#1f6feb", "webdis": "#8b949e", "etcd": "#bdc4cc", "bare": "#57606a"}


def picture(document):
    rows = document["rows"]

    def bars(name, dialects):
        return [(PEER_NAMES[d].split(",")[0], rows[f"{d} 64"][name], COLOURS[d])
                for d in dialects if f"{d} 64" in rows]

    charts = [
        Chart("Acquire + release cycles per second", "64 connections; longer is better",
              bars("cycles_per_s", ("rlockd", "webdis", "etcd"))),
        Chart("Server CPU per request, µs", "64 connections; shorter is better",
              bars("cpu_us", ("bare", "rlockd", "webdis", "etcd"))),
        Chart("Release to next holder's answer, p99 ms", "by how many wait; shorter is better",
              [(row.replace("handoff ", "").replace("second", "(2 servers)"),
                figures["p99_us"] / 1000, COLOURS["rlockd"])
               for row, figures in rows.items() if row.startswith("handoff")]),
        Chart("Server CPU of acquire + release, µs",
              "by how many other locks are held; must not grow",
              [(f"{int(row.split()[2]):,}", figures["cycle_cpu_us"], COLOURS["rlockd"])
               for row, figures in rows.items() if row.startswith("beside held")]),
    ]
    return page(charts)


def write(document, folder):
    readme = folder.parent.parent / "README.md"
    readme.write_text(in_readme(readme.read_text(), document["rows"]))
    (folder / "results.md").write_text(markdown(document))
    (folder / "results.svg").write_text(picture(document))
