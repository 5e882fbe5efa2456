"""results.md: contenders for one lock."""
from report_table import number, rows_of, table

PARTIES = {"rlockd": "rlockd", "two-fronts": "rlockd, two front ends", "redisson": "Redisson",
           "two-jvms": "Redisson, two JVMs"}
RIVALS = ("redisson", "two-jvms")
FIGURES = ("turns_per_s", "p50_us", "p99_us", "jain", "client_cpu_us", "redis_cpu_us")
CONTENDED_HEAD = ("", "turns/s", "wait p50 µs", "wait p99 µs", "Jain", "CPU µs/turn",
                  "Redis CPU µs/turn")
KINDS = {"plain": "plain lock", "fair": "fair lock", "write": "read/write lock, only writers",
         "mix": "read/write lock, one turn of five writes", "permit": "one permit"}


def turns_against(rows, row, rival):
    """How many times those of the rival."""
    return number(rows[row]["turns_per_s"] / rows[rival]["turns_per_s"]
                  if rival in rows else None)


def contended_lines(rows, prefix="contended", rivals=RIVALS):
    """The parties of one contest below each other."""
    lines = {}
    for party, name in PARTIES.items():
        for row, *cells in rows_of(rows, f"{prefix} {party} ", FIGURES):
            kind, count = row.split()[2:]
            times = [turns_against(rows, row, f"{prefix} {rival} {kind} {count}")
                     for rival in rivals]
            key = list(KINDS).index(kind), int(count), list(PARTIES).index(party)
            lines[key] = [f"{KINDS[kind]}, {count}: {name}", *cells,
                          *(["–"] * len(times) if party in RIVALS else times)]
    return [line for _, line in sorted(lines.items())]


def mixed_lines(rows):
    columns = ("turns_per_s", "http_percent", "java_percent", "http_p99_us", "java_p99_us")
    return [[f"{KINDS[cells[0].split()[1]]}, {cells[0].split()[2]}", *cells[1:]]
            for cells in rows_of(rows, "mixed ", columns)]


def far_sections(rows):
    out = ["## The network to Redis takes half a millisecond", "",
           "There and back, by a relay that shares the cores. First requests of as many "
           "connections, for locks of their own, then contenders for one lock.", ""]
    out += table(["", "requests/s", "p50 µs", "p99 µs"],
                 [[cells[0].replace("far ", "") + " connections", *cells[1:]]
                  for cells in rows_of(rows, "far ", ("per_s", "p50_us", "p99_us"))])
    return out + table([*CONTENDED_HEAD, "× Redisson"],
                       contended_lines(rows, "far-contended", RIVALS[:1]))


def sections(rows):
    out = ["## Contenders for one lock", "",
           "HTTP connections, or threads of a Redisson client, that take and release the "
           "lock as fast as they can; two front ends or JVMs have half of them each. A wait "
           "lasts from asking for the lock to having it; a wait that is not over at the end of "
           "the row counts with its length so far. Jain's index of the turns: 1 is equal "
           "shares. CPU: of rlockd, or of the JVM.", ""]
    out += table([*CONTENDED_HEAD, "× Redisson", "× two JVMs"], contended_lines(rows))
    out += ["## Half of the contenders HTTP, half threads of Redisson's", ""]
    return out + table(["", "turns/s", "HTTP, % of turns", "Redisson, %", "HTTP wait p99 µs",
                        "Redisson wait p99 µs"], mixed_lines(rows)) + far_sections(rows)
