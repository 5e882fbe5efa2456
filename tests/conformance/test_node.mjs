// What the kit does not ask of clients/node/rlockd.mjs: an event loop that is blocked, callers
// that open a session at a time.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, LeaseLost, NotAcquired } from "../../clients/node/rlockd.mjs";

const TTL_MS = 3000 * Number(process.env.E2E_PATIENCE ?? 1);

/** Blocks the event loop until the condition is true, or for so long. */
function block(ms, condition = () => false) {
    for (const end = Date.now() + ms; Date.now() < end && !condition();)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
}

/** The URL of a server that grants what is asked for, unless the function has another status. */
async function front(status) {
    const server = createServer((request, response) => {
        response.statusCode = status(request) ?? 201;
        response.end(JSON.stringify({ session_id: 1, lease_id: request.headers["lease-token"],
            state: "held", ttl_ms: 30000, remaining_ms: 30000, fencing_token: 1 }));
    });
    server.unref();
    await once(server.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${server.address().port}`;
}

const tests = {
    async "a lease outlives a loop that is blocked for longer than its ttl"(client, ask) {
        await client.lock("blocked", {}, (_, lease) => {
            block(TTL_MS * 2);
            lease.check();
            assert(JSON.parse(ask("GET", "blocked")).locked);
        });
    },

    async "check() knows of a loss while the loop is blocked"(client, ask) {
        await assert.rejects(client.lock("forced", {}, (signal, lease) => {
            ask("POST", "forced/force-unlock");
            block(TTL_MS, () => lease.lost);
            assert(!signal.aborted); // the loop has had no chance
            lease.check();
        }), LeaseLost);
    },

    async "a loss aborts the signal"(client, ask) {
        await assert.rejects(client.lock("aborted", {}, async (signal) => {
            ask("POST", "aborted/force-unlock");
            await new Promise((resolve) => { signal.onabort = resolve; });
            assert(signal.reason instanceof LeaseLost);
        }), LeaseLost);
    },

    async "the error of the work comes through, and the lock is free"(client, ask) {
        await assert.rejects(client.lock("failed", {}, () => { throw new TypeError("work"); }),
            TypeError);
        assert(!JSON.parse(ask("GET", "failed")).locked);
    },

    "addresses are read as by rlock"() {
        for (const url of [" http://one, http://two ", "http://one http://two,"])
            assert.deepEqual(new Client({ url }).urls, ["http://one", "http://two"]);
    },

    async "after what is no address the next one is asked"() {
        for (const wrong of ["http://[::1", "ftp://one"]) {
            const client = new Client({ url: `${wrong} ${await front(() => {})}` });
            await client.lock("a", { waitMs: 1000 }, () => {});
        }
        await assert.rejects(new Client({ url: "," }).lock("a", {}, () => {}), NotAcquired);
    },

    async "a session that another caller has opened is not opened again"() {
        let asked = 0;
        const url = await front(({ url }) => {
            if (url.endsWith("/keep-alive")) return 503;
            if (url === "/v1/sessions" && ++asked <= 2) return 503;
        });
        const client = new Client({ url });
        const second = sleep(300).then(() => client.lock("b", { waitMs: 10000 }, () => {}));
        await client.lock("a", { waitMs: 10000 }, async (_, lease) => {
            await second;
            await sleep(100); // until the end of a thread would be known
            lease.check();
        });
        assert.equal(asked, 3); // two that have failed, one for both
    },
};

const folder = mkdtempSync(join(tmpdir(), "rlockd-node-"));
const server = spawn("/usr/bin/python3", ["tests/lib/servers.py",
    process.env.RLOCKD_BIN ?? "build/rlockd", join(folder, "place")],
    { stdio: ["pipe", "pipe", "inherit"] });
for await (const url of createInterface(server.stdout)) {
    const ask = (method, path) => execFileSync("curl",
        ["-sS", "-X", method, `${url}/v1/locks/${path}`], { encoding: "utf8" });
    for (const [name, test] of Object.entries(tests)) {
        console.log(`clients/node/rlockd.mjs: ${name}`);
        await test(new Client({ url, ttlMs: TTL_MS }), ask);
    }
    server.stdin.end();
}
rmSync(folder, { recursive: true });
process.exit();
