"""What rlockd is to reach, and whether it does."""


def ratio(rows, over, under, name):
    return rows[over][name] / rows[under][name]


def over_redisson(rows, row, name):
    return ratio(rows, f"contended rlockd {row}", f"contended redisson {row}", name)


def least(rows, prefix, name):
    """Over every row whose name begins with `prefix`; KeyError: there is none."""
    figures = [figures[name] for row, figures in rows.items() if row.startswith(prefix)]
    if not figures:
        raise KeyError(prefix)
    return min(figures)


def most(rows, prefix, name):
    return -least({row: {name: -figures[name]} for row, figures in rows.items()
                   if row.startswith(prefix)}, prefix, name)


def contended_targets():
    """Contenders for one lock, on one front end."""
    targets = []
    for kind in ("plain", "fair"):
        for count in (2, 16, 64):
            targets.append((
                f"× Redisson's hand-overs/s, {kind} lock, {count} contenders", 2, True,
                lambda rows, row=f"{kind} {count}": over_redisson(rows, row, "turns_per_s"),
                "{:.2f}"))
        targets.append((f"× Redisson's p99 of a wait, {kind} lock, 64 contenders", 1, False,
                        lambda rows, row=f"{kind} 64": over_redisson(rows, row, "p99_us"),
                        "{:.2f}"))
    for kind, bound in (("fair", 0.9), ("plain", 0.6)):
        targets.append((f"Jain's index of the turns, {kind} lock, the least of 2, 16 and 64 "
                        "contenders", bound, True,
                        lambda rows, kind=kind: least(rows, f"contended rlockd {kind} ",
                                                      "jain"), "{:.3f}"))
        targets.append((f"% of the turns, the side with fewer, {kind} lock, half HTTP and half "
                        "Redisson", 25, True,
                        lambda rows, kind=kind: least(rows, f"mixed {kind} ", "least_percent"),
                        "{:.1f}"))
    return targets


def two_fronts_targets():
    """Two front ends, as operators are advised to have, against as many JVMs, and one."""
    return [(f"× the hand-overs/s of {name}, {kind} lock, {count} contenders, two front ends",
             bound, True,
             lambda rows, rival=rival, row=f"{kind} {count}": ratio(
                 rows, f"contended two-fronts {row}", f"contended {rival} {row}",
                 "turns_per_s"), "{:.2f}")
            for kind in ("plain", "fair")
            for rival, name, bounds in (("two-jvms", "two JVMs", (2, 2, 2)),
                                        ("redisson", "one JVM", (1.2, 2, 2)))
            for count, bound in zip((2, 16, 64), bounds)]


def growth_of(rows, what, figure):
    """The most that any operation costs beside many, as a multiple of beside none."""
    none = rows[f"beside {what} 0"]
    return max(figures[name] / none[name] for row, figures in rows.items()
               if row.startswith(f"beside {what} ") for name in none if name.endswith(figure))


def growth_targets():
    return [(f"× {name} beside none, the worst operation beside many {what}", 1.3, False,
             lambda rows, what=what, figure=figure: growth_of(rows, what, figure), "{:.2f}")
            for what in ("held", "sessions", "waiters")
            for figure, name in (("p99_us", "its p99"), ("_cpu_us", "its CPU"))]


def base_ratio(rows, name):
    """This version against the earlier one of BENCH_BASE."""
    earlier = next(row for row in rows if row.startswith("base ") and row != "base now")
    return ratio(rows, "base now", earlier, name)


# What, its bound, whether more is better, the figure from the rows of medians, its format.
TARGETS = [
    ("× webdis' cycles/s, 64 connections", 1.5, True,
     lambda rows: ratio(rows, "rlockd 64", "webdis 64", "cycles_per_s"), "{:.2f}"),
    ("× etcd's cycles/s, 64 connections", 6, True,
     lambda rows: ratio(rows, "rlockd 64", "etcd 64", "cycles_per_s"), "{:.1f}"),
    ("× bare libmicrohttpd's CPU per request, 64 connections", 1.6, False,
     lambda rows: ratio(rows, "rlockd 64", "bare 64", "cpu_us"), "{:.2f}"),
    ("system calls per request, 64 connections", 3, False,
     lambda rows: rows["system calls 64"]["strace"], "{:.2f}"),
    ("ms from release to the only waiter's answer, p99", 2, False,
     lambda rows: rows["handoff 1"]["p99_us"] / 1000, "{:.2f}"),
    ("ms from release to the answer of one of 900, p99", 5, False,
     lambda rows: rows["handoff 900"]["p99_us"] / 1000, "{:.2f}"),
    ("KiB resident per parked waiter, 10,000 of them", 8, False,
     lambda rows: rows["parked 10000"]["bytes_per_waiter"] / 1024, "{:.2f}"),
    ("× its p99 without them, beside 10,000 parked waiters", 1.5, False,
     lambda rows: rows["parked 10000"]["p99_ratio"], "{:.2f}"),
    ("× Redisson's uncontended cycles/s, 64 connections, 64 threads", 3, True,
     lambda rows: ratio(rows, "tcp-rlockd 64", "redisson 64", "cycles_per_s"), "{:.2f}"),
    ("× one master's cycles/s, three masters with a tenth of a core each, messages to the "
     "shard", 2.5, True,
     lambda rows: ratio(rows, "masters 3 0", "masters 1 0", "cycles_per_s"), "{:.2f}"),
    ("× its CPU with a single Redis, a request to a quorum of three, 64 connections", 1.6,
     False, lambda rows: ratio(rows, "quorum-cycles 3 64", "quorum-cycles 1 64", "cpu_us"),
     "{:.2f}"),
    *contended_targets(),
    *two_fronts_targets(),
    ("× its p99 beside ordinary clients, a bystander of the dearest requests, the worst",
     3, False, lambda rows: most(rows, "bystander ", "p99_ratio"), "{:.2f}"),
    *growth_targets(),
    ("× the earlier version's cycles/s", 1, True,
     lambda rows: base_ratio(rows, "cycles_per_s"), "{:.2f}"),
    ("× the earlier version's CPU of rlockd", 1, False,
     lambda rows: base_ratio(rows, "cpu_us"), "{:.2f}"),
    ("× the earlier version's CPU of Redis", 1, False,
     lambda rows: base_ratio(rows, "redis_cpu_us"), "{:.2f}"),
]


def judge(rows):
    """A list of dicts: what, bound, figure and verdict."""
    verdicts = []
    for what, bound, more_is_better, figure_of, form in TARGETS:
        limit = f"{'≥' if more_is_better else '≤'} {bound:g} {what}"
        try:
            figure = figure_of(rows)
        except (KeyError, StopIteration, ZeroDivisionError):
            verdicts.append({"what": limit, "figure": "-", "verdict": "left out"})
            continue
        met = figure >= bound if more_is_better else figure <= bound
        missed = 1 - figure / bound if more_is_better else figure / bound - 1
        verdicts.append({"what": limit, "figure": form.format(figure),
                         "verdict": "met" if met else f"missed by {100 * missed:.0f} %"})
    return verdicts
