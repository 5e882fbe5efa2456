// The steps with the types of openapi-typescript and the client openapi-fetch.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./rlockd.js";

const client = createClient<paths>({ baseUrl: process.env.RLOCKD_URL! });

type Answer<Data> = {
    data?: Data;
    error?: components["schemas"]["Problem"];
    response: Response;
};

// What a successful answer says.
async function success<Data>(status: number, asked: Promise<Answer<Data>>): Promise<Data> {
    const answer = await asked;
    assert.equal(answer.response.status, status, answer.error?.detail);
    assert(answer.data);
    return answer.data;
}

async function problem(status: number, asked: Promise<Answer<unknown>>) {
    const answer = await asked;
    assert.equal(answer.response.status, status);
    assert(answer.error);
    return answer.error;
}

function ok(step: string) {
    console.log("ok", step);
}

async function openSession() {
    const token = randomUUID();
    const session = await success(201, client.POST("/v1/sessions", {
        params: { header: { "Session-Token": token } },
        body: { name: "smoke/typescript" },
    }));
    assert.equal(session.ttl_ms, 30000);
    ok("open-session");
    return { token, id: session.session_id };
}

type Session = Awaited<ReturnType<typeof openSession>>;

async function locks(session: Session) {
    const path = { name: "typescript/orders 42" };
    const leaseToken = { "Lease-Token": randomUUID() };
    const acquisition = {
        params: { path, header: { ...leaseToken, "Session-Token": session.token } },
        body: { ttl_ms: 60000, note: "smoke" },
    };
    const lease = await success(201, client.PUT("/v1/locks/{name}", acquisition));
    assert(lease.lock === path.name && lease.fencing_token > 0);
    ok("acquire");
    const again = await success(200, client.PUT("/v1/locks/{name}", acquisition));
    assert.equal(again.lease_id, lease.lease_id);
    ok("acquire-again");
    const locked = await problem(423, client.PUT("/v1/locks/{name}", {
        params: { path, header: { "Lease-Token": randomUUID() } },
        body: { wait_ms: 50 },
    }));
    assert.equal(locked.type, "urn:rlockd:problem:locked");
    assert.equal(locked.holder?.lease_id, lease.lease_id);
    assert(locked.retry_after_ms! > 0);
    ok("locked");
    await look(path.name, lease.lease_id);
    // No body at all.
    const renewed = await success(200, client.PATCH("/v1/locks/{name}", {
        params: { path, header: leaseToken },
    }));
    assert(renewed.watchdog);
    ok("renew");
    const alive = await success(200, client.POST("/v1/sessions/{session_id}/keep-alive", {
        params: {
            path: { session_id: session.id },
            header: { "Session-Token": session.token },
        },
        body: { held: [lease.lease_id] },
    }));
    assert.deepEqual(alive.leases?.map((held) => held.lease_id), [lease.lease_id]);
    assert.deepEqual(alive.lost, []);
    ok("keep-alive");
    const released = await success(200, client.DELETE("/v1/locks/{name}", {
        params: { path, header: leaseToken },
    }));
    assert.equal(released.hold_count, 0);
    ok("release");
    const ended = await problem(410, client.PUT("/v1/locks/{name}", acquisition));
    assert.equal(ended.reason, "released");
    ok("ended");
}

async function look(name: string, leaseId: string) {
    const state = await success(200, client.GET("/v1/locks/{name}", {
        params: { path: { name } },
    }));
    assert(state.locked && state.holders[0]?.lease_id === leaseId);
    assert.equal(state.holders[0].note, "smoke");
    ok("look");
    const page = await success(200, client.GET("/v1/locks", {
        params: { query: { prefix: "typescript/" } },
    }));
    assert.deepEqual(page.locks.map((lock) => lock.lock), [name]);
    assert.equal(page.next_cursor, null);
    ok("list");
}

async function severalLocks() {
    const params = { header: { "Lease-Token": randomUUID() } };
    const body = { locks: ["typescript/2", "typescript/1"] };
    const lease = await success(201, client.PUT("/v1/multi-locks", { params, body }));
    assert.deepEqual(lease.locks.map((hold) => hold.lock), ["typescript/1", "typescript/2"]);
    const state = await success(200, client.GET("/v1/multi-locks", { params }));
    assert(state.state === "held" && state.locks[0]!.fencing_token > 0);
    await success(200, client.DELETE("/v1/multi-locks", { params }));
    ok("several-locks");
}

async function semaphore() {
    const params = { path: { name: "typescript/pool" } };
    await success(201, client.PUT("/v1/semaphores/{name}", { params, body: { permits: 3 } }));
    const taken = await success(200, client.POST("/v1/semaphores/{name}/acquire", {
        params, body: { permits: 2 },
    }));
    assert.equal(taken.available, 1);
    const given = await success(200, client.POST("/v1/semaphores/{name}/release", { params }));
    assert(given.permits === 1 && given.available === 2);
    assert((await success(200, client.DELETE("/v1/semaphores/{name}", { params }))).deleted);
    ok("semaphore");
}

async function permit(session: Session) {
    const path = { name: "typescript/gpu" };
    const header = { "Lease-Token": randomUUID() };
    await success(201, client.PUT("/v1/permit-semaphores/{name}", {
        params: { path }, body: { permits: 2 },
    }));
    const taken = await success(201, client.PUT("/v1/permit-semaphores/{name}/permit", {
        params: { path, header: { ...header, "Session-Token": session.token } },
    }));
    assert(taken.available === 1 && taken.watchdog);
    await success(200, client.PATCH("/v1/permit-semaphores/{name}/permit", {
        params: { path, header }, body: { ttl_ms: 60000 },
    }));
    const state = await success(200, client.GET("/v1/permit-semaphores/{name}", {
        params: { path },
    }));
    assert.equal(state.holders[0]?.lease_id, taken.lease_id);
    await success(200, client.DELETE("/v1/permit-semaphores/{name}/permit", {
        params: { path, header },
    }));
    ok("permit");
}

async function latch() {
    const path = { name: "typescript/ready" };
    const count = Number.MAX_SAFE_INTEGER;
    const params = { path };
    await success(201, client.PUT("/v1/latches/{name}", { params, body: { count } }));
    const header = { "Idempotency-Key": randomUUID() };
    for (let i = 0; i < 2; i++) {
        const counted = await success(200, client.POST("/v1/latches/{name}/count-down", {
            params: { path, header },
        }));
        assert.equal(counted.count, count - 1);
    }
    const seen = await success(200, client.GET("/v1/latches/{name}", {
        params: { path, query: { wait_ms: 50 } },
    }));
    assert.equal(seen.count, count - 1);
    await success(200, client.DELETE("/v1/latches/{name}", { params }));
    ok("latch");
}

const session = await openSession();
await locks(session);
await severalLocks();
await semaphore();
await permit(session);
await latch();
const ended = await success(200, client.DELETE("/v1/sessions/{session_id}", {
    params: { path: { session_id: session.id }, header: { "Session-Token": session.token } },
}));
assert.equal(ended.released, 0);
ok("end-session");
