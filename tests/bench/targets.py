"""What rlockd is to reach, and whether it does."""


def ratio(rows, over, under, name):
    return rows[over][name] / rows[under][name]


def over_redisson(rows, row, name):
    return rows[f"contended rlockd {row}"][name] / rows[f"contended redisson {row}"][name]


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
    *contended_targets(),
    ("× its p99 beside ordinary clients, a bystander of the dearest requests, the worst",
     3, False, lambda rows: most(rows, "bystander ", "p99_ratio"), "{:.2f}"),
]


def judge(rows):
    """A list of dicts: what, bound, figure and verdict."""
    verdicts = []
    for what, bound, more_is_better, figure_of, form in TARGETS:
        limit = f"{'≥' if more_is_better else '≤'} {bound:g} {what}"
        try:
            figure = figure_of(rows)
        except (KeyError, ZeroDivisionError):
            verdicts.append({"what": limit, "figure": "-", "verdict": "left out"})
            continue
        met = figure >= bound if more_is_better else figure <= bound
        missed = 1 - figure / bound if more_is_better else figure / bound - 1
        verdicts.append({"what": limit, "figure": form.format(figure),
                         "verdict": "met" if met else f"missed by {100 * missed:.0f} %"})
    return verdicts
