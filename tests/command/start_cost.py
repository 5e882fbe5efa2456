#!/usr/bin/env python3
"""The time from the start of `rlock run` to that of its COMMAND, with a free lock, beside
`etcdctl lock` and flock(1) in the same run. Fails where rlock takes more than half of etcdctl's
time. Needs etcd and etcdctl: Debian's etcd-server and etcd-client.

usage: start_cost.py [ROUNDS]"""
import os
import statistics
import subprocess
import sys
import time

from world import World, name, servers, wait_for

MOST = 0.5  # of etcdctl's time


def seconds_to_start(arguments, environment):
    """COMMAND prints the time at which it has started."""
    begun = time.time()
    done = subprocess.run([*arguments, "date", "+%s.%N"], env=environment, check=True,
                          capture_output=True, text=True, timeout=20)
    stamp = next(row for row in done.stdout.splitlines() if "." in row and "/" not in row)
    return float(stamp) - begun


def measure(world, rounds):
    front, port, peer = world.front(), servers.free_port(), servers.free_port()
    url = f"http://127.0.0.1:{port}"
    etcd = subprocess.Popen(
        ["etcd", "--data-dir", f"{world.folder}/etcd", "--listen-client-urls", url,
         "--advertise-client-urls", url, "--listen-peer-urls", f"http://127.0.0.1:{peer}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    environment = dict(os.environ, RLOCK_URL=front.url, ETCDCTL_API="3", ETCDCTL_ENDPOINTS=url)
    try:
        wait_for(lambda: subprocess.run(["etcdctl", "get", "x"], env=environment, check=False,
                                        capture_output=True).returncode == 0, "etcd is ready")
        commands = {"rlock run": lambda: [world.rlock, "run", name()],
                    "etcdctl lock": lambda: ["etcdctl", "lock", name()],
                    "flock": lambda: ["flock", f"{world.folder}/{name()}"]}
        times = {title: [] for title in commands}
        for _ in range(rounds):
            for title, command in commands.items():
                times[title].append(seconds_to_start(command(), environment))
    finally:
        etcd.kill()
        etcd.wait()
    return {title: statistics.median(found) for title, found in times.items()}


def main():
    world = World()
    try:
        medians = measure(world, int(sys.argv[1]) if len(sys.argv) > 1 else 30)
    finally:
        world.close()
    for title, seconds in medians.items():
        print(f"{title:14} {seconds * 1000:8.1f} ms")
    share = medians["rlock run"] / medians["etcdctl lock"]
    print(f"rlock run takes {share:.2f} of etcdctl's time, at most {MOST}")
    sys.exit(share > MOST)


if __name__ == "__main__":
    main()
