// What the kit does not ask of clients/node/rlockd.mjs: an event loop that is blocked.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, LeaseLost } from "../../clients/node/rlockd.mjs";

const TTL_MS = 3000 * Number(process.env.E2E_PATIENCE ?? 1);

/** Blocks the event loop until the condition is true, or for so long. */
function block(ms, condition = () => false) {
    for (const end = Date.now() + ms; Date.now() < end && !condition();)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
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
