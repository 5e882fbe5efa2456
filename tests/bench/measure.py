"""One measurement each: load against a server, and what was used meanwhile."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

from quota import quota
from servers import Http, wait_for

SLICE_CYCLES = 4000
LOAD_TIMEOUT_S = 300
WATCHDOG_PERIOD_S = 10  # a third of the default watchdog timeout
SESSION_LOCKS = 1000  # as many leases as a session may have


def descriptors():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def waiters_max():
    """Of one front end; a quarter of its connections stays for others."""
    return (descriptors() * 3 // 4 - 500) // 1000 * 1000


def load_start(place, mode, server, **options):
    """Starts the load generator; load_end() gives its figures."""
    command = [str(place.build / "tests/bench/load"), mode, "--port", str(server.port),
               "--dialect", server.dialect, *server.arguments]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            command += [f"--{name.replace('_', '-')}", str(item)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def load_end(process):
    """The figures as a dict."""
    try:
        text, errors = process.communicate(timeout=LOAD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(process.args)}: {errors.strip()}")
    return json.loads(text)


def load(place, mode, server, **options):
    return load_end(load_start(place, mode, server, **options))


def cpu_of(redis):
    """For the load: the processes of a Redis, or of several."""
    return [f"redis{number}={pid}" for number, pid in enumerate(redis.pids)]


def redis_us(figures):
    return sum(us for name, us in figures["cpu_us"].items() if name.startswith("redis"))


def cycles(place, server, redis, connections, seconds):
    """Acquire and release over `connections` connections, with CPU and Redis' calls."""
    redis.command("FLUSHALL")
    before = redis.calls()
    figures = load(place, "cycle", server, connections=connections, seconds=seconds,
                   cpu=[f"server={server.pid}", *cpu_of(redis)])
    requests = figures["requests"]
    slower = {"p50_us": max(figures["acquire_p50_us"], figures["release_p50_us"]),
              "p99_us": max(figures["acquire_p99_us"], figures["release_p99_us"])}
    return {"cycles_per_s": figures["cycles_per_s"], **slower,
            "cpu_us": figures["cpu_us"]["server"] / requests,
            "redis_cpu_us": redis_us(figures) / requests,
            "both_cpu_us": sum(figures["cpu_us"].values()) / requests,
            "redis_calls": redis.script_calls_since(before) / figures["cycles_in_all"]}


def limited_cycles(place, redis, workers, percent, seconds):
    """Cycles while rlockd gets `percent` of a core for each of its workers. OSError: such a
    limit is not permitted."""
    server = place.rlockd(redis, "--workers", str(workers))
    try:
        with quota(server.pid, percent * workers):
            return cycles(place, server, redis, 64, seconds)
    finally:
        server.stop()


def may_trace():
    """Whether strace may attach to a process that is not its child."""
    with subprocess.Popen(["sleep", "60"]) as other, \
            subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(other.pid)],
                             stderr=subprocess.PIPE, text=True) as tracer:
        attached = "attached" in tracer.stderr.readline()
        other.kill()
        tracer.communicate()
    return attached


def system_calls(place, server, connections, count=SLICE_CYCLES):
    """System calls a request, by strace on a slice; None where strace may not trace."""
    if not may_trace():
        return None
    summary = place.folder / f"strace-{place.number()}"
    tracer = place.start(["strace", "-c", "-f", "-U", "calls,name", "-o", str(summary), "-p",
                          str(server.pid)])
    try:
        wait_for(lambda: "attached" in tracer.log.read_text() or not tracer.is_alive(),
                 "strace")
        if not tracer.is_alive():
            raise RuntimeError(f"strace: {tracer.log.read_text()}")
        load(place, "cycle", server, connections=connections, cycles=count)
    finally:
        tracer.stop(signal.SIGINT)
    total = re.search(r"^ *(\d+) +total$", summary.read_text(), re.M)
    return int(total[1]) / (2 * count)


# Callgrind counts each byte that `rep stosb` clears as an instruction; glibc has other ways.
WITHOUT_REP = "GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=16777216"


def instructions(place, redis, connections, count, *flags, warm=1000):
    """Instructions of rlockd a request, by callgrind: of `count` cycles, less the start."""
    taken = {}
    for cycle_count in (warm, warm + count):
        out = place.folder / f"callgrind-{place.number()}"
        valgrind = ["env", WITHOUT_REP, "valgrind", "--tool=callgrind",
                    f"--callgrind-out-file={out}"]
        server = place.rlockd(redis, *flags, wrap=valgrind, program="rlockd-untimed")
        load(place, "cycle", server, connections=connections, cycles=cycle_count)
        server.stop()
        taken[cycle_count] = int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(),
                                           re.M)[1])
    return (taken[warm + count] - taken[warm]) / (2 * count)


def handoff(place, redis, waiters, seconds, second_front_end=False):
    redis.command("FLUSHALL")
    server = place.rlockd(redis)
    other = place.rlockd(redis) if second_front_end else server
    figures = load(place, "handoff", server, waiters=waiters, seconds=seconds,
                   release_port=other.port)
    for each in {server, other}:
        each.stop()
    return {"p50_us": figures["handoff_p50_us"], "p99_us": figures["handoff_p99_us"]}


def park(place, redis, waiters, seconds, rounds=1, connections=16):
    """Cycles and keep-alives alone, then beside `waiters` who wait for a hundred other locks;
    medians of `rounds`."""
    redis.command("FLUSHALL")
    server = place.rlockd(redis)
    figures = load(place, "park", server, waiters=waiters, seconds=seconds, rounds=rounds,
                   rss=server.pid, connections=connections)
    server.stop()
    return {"bytes_per_waiter": figures["bytes_per_waiter"],
            "parked_in_s": figures["parked_in_s"],
            "alone_p99_us": figures["alone_p99_us"], "beside_p99_us": figures["beside_p99_us"],
            "p99_ratio": figures["beside_p99_us"] / figures["alone_p99_us"],
            "keep_alive_alone_p99_us": figures["keep_alive_alone_p99_us"],
            "keep_alive_beside_p99_us": figures["keep_alive_beside_p99_us"]}


def cpu_s(pid):
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lateness(page):
    """Count, sum in seconds and cumulative buckets of the watchdog's lateness."""
    name = "rlockd_watchdog_lateness_seconds"
    value = {kind: float(re.search(rf"^{name}_{kind} (\S+)", page, re.M)[1])
             for kind in ("count", "sum")}
    buckets = [(float(bound), int(count)) for bound, count
               in re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\d+)', page, re.M)]
    return value["count"], value["sum"], buckets


def watchdog(place, redis, locks):
    """Sessions with `locks` locks in all: what it costs to renew them every WATCHDOG_PERIOD_S,
    and how late that comes (the latest of each round)."""
    redis.command("FLUSHALL")
    server = place.rlockd(redis)
    http = Http(server.port)
    for number in range(locks // SESSION_LOCKS):
        session = http.ask("POST", "/v1/sessions?ttl_ms=600000")[1]["session_token"]
        load(place, "hold", server, cycles=SESSION_LOCKS, session=session,
             name=f"watched-{number}")

    def now():
        page = http.metrics()
        renewals = int(re.search(r"^rlockd_watchdog_renewals_total (\d+)", page, re.M)[1])
        return renewals, cpu_s(server.pid), cpu_s(redis.pid), lateness(page)

    before = now()
    time.sleep(WATCHDOG_PERIOD_S + 2)  # so that each falls due in it
    after = now()
    server.stop()
    renewals, server_s, redis_s = (late - early for late, early in zip(after[:3], before))
    rounds, late_s = after[3][0] - before[3][0], after[3][1] - before[3][1]
    p99 = next((bound for (bound, count), (_, old) in zip(after[3][2], before[3][2])
                if count - old >= 0.99 * rounds), float("inf"))
    per_period = locks / WATCHDOG_PERIOD_S / renewals
    return {"renewals_per_s": renewals / (WATCHDOG_PERIOD_S + 2),
            "server_percent": 100 * server_s * per_period,
            "redis_percent": 100 * redis_s * per_period,
            "redis_us_each": 1e6 * redis_s / renewals,
            "late_mean_ms": 1000 * late_s / rounds, "late_p99_ms_at_most": 1000 * p99}


def has_perf():
    if not shutil.which("perf"):
        return False
    probe = subprocess.run(["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"],
                           stderr=subprocess.PIPE, text=True, check=False)
    return probe.returncode == 0 and "not supported" not in probe.stderr


def system_calls_by_perf(place, server, connections, seconds=1):
    """The same without slowing the server down, where perf may count."""
    counter = subprocess.Popen(["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p",
                                str(server.pid)], stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    count = load(place, "cycle", server, connections=connections,
                 seconds=seconds)["cycles_in_all"]
    counter.send_signal(signal.SIGINT)
    text = counter.communicate(timeout=10)[1]
    found = re.search(r"^(\d+),,raw_syscalls", text, re.M)
    return int(found[1]) / (2 * count) if found else None
