"""What goes wrong in a run. A fault is a function that begins it, waits, heals it and returns
how much it touched; a count of None is measured by the requests that it hurt."""
import asyncio
import contextlib
import random
import signal

from history import PATIENCE, now
from leaks import metric
from processes import wait_for
from servers import RedisError

# A front end is ready again by then, once nothing hurts it any more.
READY_S = 6 * PATIENCE
STOP_S = 6 * PATIENCE


class Nemesis:
    def __init__(self, world, redis, seed, faults):
        self.world, self.redis = world, redis
        self.random = random.Random(f"{seed} nemesis")
        self.active, self.faults = [], faults
        self.undone_until = None  # of the last failover; None: it undid nothing
        self.log = []

    async def run(self):
        """Every fault once, in a random order, and then pairs and single ones again. Failovers
        come first, and restarts of a quorum's servers: a short run has them, too."""
        order = self.random.sample(self.faults, len(self.faults))
        order.sort(key=lambda name: FAULTS[name].needs_replica or
                   self.restarts(FAULTS[name]) and not FAULTS[name].is_beyond)
        await self.calm()
        while not self.world.stop.is_set():
            first = order.pop() if order else self.random.choice(self.faults)
            both = [first]
            if self.random.random() < 0.35 and len(self.faults) > 1:
                both.append(self.random.choice([f for f in self.faults if f != first]))
            if self.conflict(both):
                both = [first]
            await self.redis.pick(self.random, any(FAULTS[f].is_beyond for f in both))
            await asyncio.gather(*(self.hurt(fault) for fault in both))
            await self.see_to_front_ends()
            await self.calm()

    @staticmethod
    def conflict(both):
        """Two faults of one process cannot be told apart."""
        places = [FAULTS[fault].place for fault in both]
        return len(set(places)) < len(places) or "redis-process" in places

    async def calm(self):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.world.stop.wait(), self.random.uniform(1.5, 4.5))

    def pause(self, least=0.4, most=3.0):
        return asyncio.sleep(self.random.uniform(least, most))

    async def hurt(self, name):
        fault, history = FAULTS[name], self.world.history
        front = self.random.choice(self.world.fronts)
        self.active.append(name)
        loses_data = fault.loses_data and not self.redis.quorum
        if loses_data or fault.needs_replica:
            await self.tell_live("lost")
        await self.note_memory(self.active == ["F14 out of memory"])
        began, hard = now(), (history.hard, dict(history.hard_of))
        without = await self.redis.scripts_without()
        self.undone_until = None
        touched = await fault.run(self, front)
        ended = now()
        self.active.remove(name)
        await self.note_memory(False)
        if touched is None:
            decided = await self.redis.scripts_without() - without
            await asyncio.sleep(1)  # answers that are late on their way count, too
            touched = history.hard_of.get(front.number, 0) - hard[1].get(front.number, 0) \
                if fault.scope == "front" else history.hard - hard[0] + decided
        history.write("fault", kind=name, scope=fault.scope, t_begin=began, t_end=ended,
                      front=front.number if fault.scope == "front" else None, effect=touched,
                      undoes_until=self.undone_until,
                      restarts=self.restarts(fault) or None,
                      minority=self.hurts_a_minority(fault) or None,
                      loses_data=loses_data or self.undone_until is not None or None)
        self.log.append((name, front.number, began, ended, touched))

    def restarts(self, fault):
        """Whether it restarts servers of a quorum."""
        return fault.restarts and self.redis.quorum > 0

    def hurts_a_minority(self, fault):
        """Whether all but a minority of a quorum's servers go on."""
        return self.redis.quorum > 0 and not fault.is_beyond and \
            fault.place in ("redis-process", "redis-net")

    async def note_memory(self, is_only_fault):
        """Whether requests fail for want of Redis' memory, and for nothing else."""
        self.world.only_out_of_memory = is_only_fault
        await self.tell_live(f"memory {int(is_only_fault)}")

    async def tell_live(self, line):
        if self.world.live is not None:
            await self.world.live.tell(line)

    async def see_to_front_ends(self):
        """Each must be ready again by itself; one that is not is killed, and that is noted."""
        for front in self.world.fronts:
            began = now()
            while not await is_ready(front) and now() - began < READY_S * 10**9:
                await asyncio.sleep(0.1)
            if await is_ready(front):
                continue
            self.world.history.op(
                client="nemesis", op="probe", front=front.number, t_inv=began, t_ret=now(),
                status=503, outcome="not-done",
                malformed=f"front end {front.number} is not ready {READY_S} s after "
                          f"{self.log[-1][0]}")
            began = now()
            await restart(front)
            self.world.history.write("fault", kind="restart", scope="front", t_begin=began,
                                     t_end=now(), front=front.number, effect=1)

    # ---- the process of a front end

    async def kill_front(self, front):
        front.kill()
        await self.pause(0.2, 2)
        await restart(front)

    async def pause_front(self, front):
        front.send(signal.SIGSTOP)
        await self.pause(0.5, 4)
        front.send(signal.SIGCONT)
        await asyncio.sleep(0.3)

    async def stop_front(self, front):
        began = now()
        front.send(signal.SIGTERM)
        status = await front.wait_for_exit(STOP_S)
        if status != 0:
            self.world.history.op(
                client="nemesis", op="probe", front=front.number, t_inv=began, t_ret=now(),
                status=503, outcome="not-done",
                malformed=f"front end {front.number} ended a graceful stop with {status}")
            front.kill()
        await restart(front)
        return 1

    # ---- the process of Redis

    async def kill_redis(self, _front):
        self.redis.kill()
        await self.pause(0.2, 2)
        await self.redis.start()

    async def kill_redis_with_its_data(self, _front):
        await self.redis.keep_data(False)
        self.redis.kill()
        await self.pause(0.1, 1.5)
        await self.redis.start()
        await self.redis.keep_data(True)

    async def failovers(self):
        """How many the front ends have counted."""
        return [await metric(front, "redis_failovers_total") for front in self.world.fronts]

    async def replace_master(self, how):
        """What was done before the fault is with the replica by then."""
        before = await self.failovers()
        await self.redis.settle()
        self.undone_until = await how()

        async def is_noticed():
            return all(seen > old for seen, old in zip(await self.failovers(), before))
        await wait_for(is_noticed, "the front ends follow the new master")
        return sum(await self.failovers()) - sum(before)

    async def kill_master(self, _front):
        return await self.replace_master(
            lambda: self.redis.lose_master(0, self.random.uniform(0, 2)))

    async def kill_master_before_its_replica_has_all(self, _front):
        return await self.replace_master(
            lambda: self.redis.lose_master(self.random.uniform(0.1, 0.5),
                                           self.random.uniform(0, 2)))

    async def fail_over(self, _front):
        return await self.replace_master(self.redis.fail_over)

    async def stop_redis_for_a_while(self, _front):
        self.redis.send(signal.SIGSTOP)
        await self.pause(0.5, 3.5)
        self.redis.send(signal.SIGCONT)

    async def busy_script(self, _front):
        """At times for so long that Redis answers BUSY."""
        loops = self.random.choice([1, 1, 3]) * 10**8
        with contextlib.suppress(RedisError, asyncio.TimeoutError):
            await self.redis.command("EVAL", f"for i = 1, {loops} do end", 0, timeout=30)

    async def debug_sleep(self, _front):
        await self.redis.command("DEBUG", "SLEEP", f"{self.random.uniform(0.5, 3):.2f}")

    # ---- what Redis can be told to do

    async def errors_since(self, word, before):
        """The number of these errors. A fault has to touch something, so this waits for the
        first error, also while another fault holds the requests of the front ends back."""
        for _ in range(50):
            touched = await self.redis.errors(word) - before
            if touched > 0:
                break
            await asyncio.sleep(0.1)
        return touched

    async def client_pause(self, _front):
        ms = self.random.randint(500, 3500)
        await self.redis.command("CLIENT", "PAUSE", ms)
        await asyncio.sleep(ms / 1000)

    async def flush_scripts(self, _front):
        before = await self.redis.errors("NOSCRIPT")
        for _ in range(20):
            await self.redis.command("SCRIPT", "FLUSH")
            await asyncio.sleep(0.1)
        return await self.errors_since("NOSCRIPT", before)

    async def out_of_memory(self, _front):
        before = await self.redis.errors("OOM")
        await self.redis.command("CONFIG", "SET", "maxmemory", 1)
        await self.pause(1, 3)
        touched = await self.errors_since("OOM", before)
        await self.redis.command("CONFIG", "SET", "maxmemory", 0)
        return touched

    async def no_replicas(self, _front):
        before = await self.redis.errors("NOREPLICAS")
        await self.redis.command("CONFIG", "SET", "min-replicas-to-write",
                                 self.redis.replicas + 1)
        await self.pause(0.5, 3)
        touched = await self.errors_since("NOREPLICAS", before)
        await self.redis.command("CONFIG", "SET", "min-replicas-to-write", 0)
        return touched

    async def kill_clients(self, _front):
        killed = 0
        for _ in range(self.random.randint(1, 6)):
            killed += await self.redis.command("CLIENT", "KILL", "TYPE", "normal")
            await self.pause(0.05, 0.5)
        return killed

    async def kill_subscriptions(self, _front):
        """At times one after the other, so that for a while there are none."""
        killed, is_dense = 0, self.random.random() < 0.5
        for _ in range(self.random.randint(20, 60) if is_dense else self.random.randint(1, 6)):
            killed += await self.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
            await (self.pause(0.005, 0.03) if is_dense else self.pause(0.05, 0.5))
        return killed

    # ---- the network on both sides of a front end

    async def through(self, proxy, mode, least=0.4, most=3.0, **how):
        proxy.set(mode, **how)
        await self.pause(least, most)
        for _ in range(50):  # a fault that touches nothing is none
            if proxy.touched:
                break
            await asyncio.sleep(0.1)
        return proxy.heal()

    async def redis_blackhole(self, front):
        return await self.through(front.redis_proxy, "blackhole", 0.5, 4)

    async def redis_hold(self, front):
        return await self.through(front.redis_proxy, "hold", 0.5, 4)

    async def redis_delay(self, front):
        return await self.through(front.redis_proxy, "delay",
                                  delay_s=self.random.uniform(0.02, 0.5))

    async def redis_drop_replies(self, front):
        return await self.through(front.redis_proxy, "drop-replies", 0.3, 2.5)

    async def redis_cut(self, front):
        return await self.through(front.redis_proxy, "cut", 0.3, 1.5,
                                  budget=self.random.randint(100, 20000))

    async def redis_reset(self, front):
        count = 0
        for _ in range(self.random.randint(1, 5)):
            count += front.redis_proxy.reset_all()
            await self.pause(0.01, 0.5)
        return count

    async def redis_refuse(self, front):
        front.redis_proxy.set("refuse")
        front.redis_proxy.reset_all()
        await self.pause(0.3, 2)
        return front.redis_proxy.heal()

    async def client_drop_replies(self, front):
        return await self.through(front.proxy, "drop-replies", 0.2, 1.5)

    async def client_hold(self, front):
        return await self.through(front.proxy, "hold", 0.2, 3)

    async def client_blackhole(self, front):
        return await self.through(front.proxy, "blackhole", 0.2, 2)

    async def client_delay(self, front):
        return await self.through(front.proxy, "delay", delay_s=self.random.uniform(0.02, 0.6))

    async def client_cut(self, front):
        return await self.through(front.proxy, "cut", 0.2, 1,
                                  budget=self.random.randint(50, 5000))

    async def client_reset(self, front):
        count = 0
        for _ in range(self.random.randint(1, 5)):
            count += front.proxy.reset_all()
            await self.pause(0.01, 0.4)
        return count

    async def client_half_close(self, front):
        return front.proxy.half_close_all()


class Fault:
    """`scope`: front (of one front end, or between its clients and it) or redis. `place`: no
    two faults of one place at a time. `loses_data`: always, but not of a quorum; a failover
    says itself whether it undid something. `restarts`: a server, which gives no votes in a
    quorum then. `is_beyond`: of a majority of a quorum, which takes the service away."""

    def __init__(self, run, scope, place, loses_data=False, needs_replica=False, restarts=False,
                 is_beyond=False):
        self.run, self.scope, self.place, self.loses_data = run, scope, place, loses_data
        self.needs_replica, self.restarts, self.is_beyond = needs_replica, restarts, is_beyond


FAULTS = {
    "F1 front end killed": Fault(Nemesis.kill_front, "front", "front"),
    "F2 front end paused": Fault(Nemesis.pause_front, "front", "front"),
    "F3 Redis killed, data kept":
        Fault(Nemesis.kill_redis, "redis", "redis-process", restarts=True),
    "F3 a majority killed, data kept":
        Fault(Nemesis.kill_redis, "redis", "redis-process", restarts=True, is_beyond=True),
    "F4 Redis killed, data lost":
        Fault(Nemesis.kill_redis_with_its_data, "redis", "redis-process", loses_data=True,
              restarts=True),
    "F4 a majority killed, data lost":
        Fault(Nemesis.kill_redis_with_its_data, "redis", "redis-process", loses_data=True,
              restarts=True, is_beyond=True),
    "F5 master killed, its replica promoted":
        Fault(Nemesis.kill_master, "redis", "redis-process", needs_replica=True),
    "F5 master killed, its replica that lags promoted":
        Fault(Nemesis.kill_master_before_its_replica_has_all, "redis", "redis-process",
              needs_replica=True),
    "F5 master replaced by hand":
        Fault(Nemesis.fail_over, "redis", "redis-process", needs_replica=True),
    "F7 Redis in a black hole": Fault(Nemesis.redis_blackhole, "redis", "redis-net"),
    "F7 a majority in a black hole":
        Fault(Nemesis.redis_blackhole, "redis", "redis-net", is_beyond=True),
    "F7 Redis held": Fault(Nemesis.redis_hold, "redis", "redis-net"),
    "F7 Redis delayed": Fault(Nemesis.redis_delay, "redis", "redis-net"),
    "F8 Redis reset": Fault(Nemesis.redis_reset, "redis", "redis-net"),
    "F8 Redis cut off": Fault(Nemesis.redis_cut, "redis", "redis-net"),
    "F8 Redis refuses": Fault(Nemesis.redis_refuse, "redis", "redis-net"),
    "F8 Redis' replies dropped": Fault(Nemesis.redis_drop_replies, "redis", "redis-net"),
    "F9 answers dropped": Fault(Nemesis.client_drop_replies, "front", "front"),
    "F10 clients reset": Fault(Nemesis.client_reset, "front", "front"),
    "F10 clients cut off": Fault(Nemesis.client_cut, "front", "front"),
    "F10 clients held": Fault(Nemesis.client_hold, "front", "front"),
    "F10 clients in a black hole": Fault(Nemesis.client_blackhole, "front", "front"),
    "F10 clients delayed": Fault(Nemesis.client_delay, "front", "front"),
    "F10 clients half closed": Fault(Nemesis.client_half_close, "front", "front"),
    "F13 subscriptions killed": Fault(Nemesis.kill_subscriptions, "redis", "redis-links"),
    "F13 connections killed": Fault(Nemesis.kill_clients, "redis", "redis-links"),
    "F14 out of memory": Fault(Nemesis.out_of_memory, "redis", "redis-memory"),
    "F16 no replicas": Fault(Nemesis.no_replicas, "redis", "redis-memory"),
    "F18 scripts flushed": Fault(Nemesis.flush_scripts, "redis", "redis-scripts"),
    "F19 busy script": Fault(Nemesis.busy_script, "redis", "redis-time"),
    "F20 Redis paused": Fault(Nemesis.client_pause, "redis", "redis-time"),
    "F20 Redis stopped": Fault(Nemesis.stop_redis_for_a_while, "redis", "redis-time"),
    "F20 a majority stopped":
        Fault(Nemesis.stop_redis_for_a_while, "redis", "redis-process", is_beyond=True),
    "F20 Redis asleep": Fault(Nemesis.debug_sleep, "redis", "redis-time"),
    "F24 graceful stop": Fault(Nemesis.stop_front, "front", "front"),
}


async def is_ready(front):
    """Asks the front end itself, not through its proxy."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 1)
        writer.close()
        return b" 200 " in line
    except (OSError, asyncio.TimeoutError):
        return False


async def restart(front):
    """Returns when it is ready, or has had its time."""
    if front.is_alive():
        front.kill()
    front.launch()
    for _ in range(READY_S * 20):
        if await is_ready(front):
            return
        await asyncio.sleep(0.05)


async def start_first(front):
    """The first start: its descriptors without any client are what it has to come back to."""
    front.launch()
    for _ in range(READY_S * 20):
        if await is_ready(front):
            await asyncio.sleep(1)  # every worker has its connections
            front.base_descriptors = front.descriptors()
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"front end {front.number} did not start")
