#!/usr/bin/env python3
"""What the kit does not ask of clients/python/rlockd.py: asyncio."""
import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "clients/python")]
from servers import PATIENCE, Place, wait_for  # noqa: E402
import rlockd  # noqa: E402


def is_free(front, lock):
    look = front.ask("GET", f"/v1/locks/{lock}")[1]
    return not look["locked"] and not look["waiter_count"]


async def a_loss_cancels_the_body(front, client):
    try:
        async with rlockd.Lease(client, "forced", wait=5):
            front.ask("POST", "/v1/locks/forced/force-unlock")
            await asyncio.sleep(60)
        raise AssertionError("the body went on")
    except rlockd.LeaseLost:
        pass


async def a_cancelled_wait_leaves_nothing(front, client):
    async with rlockd.Lease(client, "waited"):
        task = asyncio.ensure_future(rlockd.Lease(client, "waited", wait=60).__aenter__())
        while not front.ask("GET", "/v1/locks/waited")[1]["waiter_count"]:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    wait_for(lambda: is_free(front, "waited"), "the lock is free")


async def waiters_do_not_hold_up_a_release(front, client):
    """More of them than asyncio has threads."""
    async def hold():
        async with rlockd.Lease(client, "wanted", wait=20 * PATIENCE):
            await asyncio.sleep(0.01)
    await asyncio.gather(*(hold() for _ in range(40)))


def main():
    with Place("python") as place:
        front = place.front()
        client = rlockd.Client(front.url, ttl=3 * PATIENCE)
        for test in (a_loss_cancels_the_body, a_cancelled_wait_leaves_nothing,
                     waiters_do_not_hold_up_a_release):
            asyncio.run(test(front, client))
    print("clients/python/rlockd.py: asyncio: ok")


if __name__ == "__main__":
    main()
