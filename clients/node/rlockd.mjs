// Locks of an rlockd server, for Node.js 18 and later. Version 1. Copy this file.
//
//     await lock("deploy", { waitMs: 30000 }, async (signal, lease) => { // or NotAcquired
//         await write(part, lease.fencingToken, { signal });  // a loss aborts the signal
//     });                                        // releases the lease, or throws LeaseLost
//
// A session in a thread of its own keeps leases alive, even while the event loop is blocked. The
// signal waits for the loop: work that blocks it calls lease.check() before each step. Reads the
// environment of rlock: RLOCK_URL, RLOCK_TOKEN_FILE, RLOCK_CA.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { MessagePort, Worker, parentPort, workerData } from "node:worker_threads";

/** The server refuses the request for good; the text says why. */
export class RlockdError extends Error {}
/** The wait was in vain or cancelled, or no server has answered in time. */
export class NotAcquired extends RlockdError {}
/** The lease has ended, or can no longer be proven. */
export class LeaseLost extends RlockdError {}

/**
 * @typedef {Record<string, any>} Json
 * @typedef {{ name: string, urls: string[], headers: Record<string, string> }} Session
 * @typedef {{ ttlMs: number, until: BigInt64Array }} Proof
 * @typedef {{ waitMs?: number, kind?: "lock" | "fair" | "read" | "write" | "permit",
 *             fields?: Json, signal?: AbortSignal }} Options
 */

/** By two clocks, which threads share: that of the wall runs on in a suspended machine. */
const now = () => [Number(process.hrtime.bigint() / 1000000n), Date.now()];
const instant = () => new BigInt64Array(new SharedArrayBuffer(16));
/** @param {BigInt64Array} until @param {number[]} from @param {number} ms */
function setLeft(until, from, ms) {
    from.forEach((time, i) => Atomics.store(until, i, BigInt(Math.floor(time + ms))));
}

/** @param {BigInt64Array} until */
function left(until) {
    return Math.min(...now().map((time, i) => Number(Atomics.load(until, i)) - time));
}

/**
 * Status and body. Status 0: no answer of an rlockd; the outcome is unknown.
 * @param {string[]} urls tried in turn
 * @param {string} method @param {string} path @param {Record<string, string>} headers
 * @param {Json} fields @param {number} timeoutMs @param {AbortSignal} [signal]
 * @returns {Promise<{ status: number, body: Json }>}
 */
async function ask(urls, method, path, headers, fields, timeoutMs, signal) {
    const url = urls[0] ?? "", text = JSON.stringify(fields), cancel = new AbortController();
    const stop = () => cancel.abort(), timer = setTimeout(stop, timeoutMs);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    let detail = "no answer of an rlockd in time";
    try {
        const { RLOCK_CA, RLOCK_TOKEN_FILE: file } = process.env;
        const ca = RLOCK_CA ? readFileSync(RLOCK_CA) : undefined;
        const authorization = file && `Bearer ${readFileSync(file, "utf8").trim()}`;
        const request = (url.startsWith("https:") ? https : http).request(url, {
            path: new URL(url).pathname.replace(/\/$/, "") + path, method, ca,
            signal: cancel.signal, headers: {
                ...headers, ...(authorization && { authorization }),
                "Content-Length": Buffer.byteLength(text) } });
        request.on("error", () => {}).end(text);
        const [response] = await once(request, "response");
        let reply = "";
        for await (const part of response.setEncoding("utf8")) reply += part;
        const body = JSON.parse(reply), status = response.statusCode;
        const isOwn = status < 300 || status === 401 || // a gateway may check API tokens
            status < 500 && String(body?.type).startsWith("urn:rlockd:problem:");
        if (isOwn && body instanceof Object) return { status, body };
        detail = `no answer of an rlockd: ${status} ${body?.detail}`;
    } catch (error) {
        detail += `: ${error}`;
    } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
    }
    if (urls[0] === url) urls.push(...urls.splice(0, 1));
    return { status: 0, body: { detail } };
}

/** The thread of a session. @param {MessagePort} port @param {Session & Proof} session */
async function keep(port, { name, urls, headers, ttlMs, until }) {
    const proofs = /** @type {Map<string, Proof>} */ (new Map());
    let wake = () => {};
    port.on("message", ({ id, proof }) => {
        if (!proof) return proofs.delete(id);
        proofs.set(id, proof);
        wake();
    });
    for (let isUrgent = false; ;) {
        if (isUrgent || !proofs.size) {
            const pause = isUrgent ? Math.min(1000, ttlMs / 15) : ttlMs / 3;
            const timer = setTimeout(() => wake(), pause);
            await new Promise((resolve) => { wake = () => resolve(clearTimeout(timer)); });
        }
        // It hangs, but not after a loss. Grants that were never answered are not in `held`.
        const ids = [...proofs.keys()], sixths = [...proofs.values()].map((p) => p.ttlMs / 6);
        let hang = Math.floor(Math.min(5000, ttlMs / 4, ...sixths));
        if (isUrgent || !ids.length) hang = 0;
        const held = ids.length > 400 ? undefined : ids, sent = now();
        const { status, body } = await ask(urls, "POST", `${name}/keep-alive`, headers,
            { wait_ms: hang, held }, hang + 3000);
        if (status === 404 || status === 410 || !body.leases && left(until) <= 0)
            return setLeft(until, [0, 0], 0), port.close();
        const isEarly = ttlMs - body.remaining_ms < hang / 2 && body.lost?.length === 0;
        isUrgent = !body.leases || body.draining || isEarly || body.lost.length > 0;
        if (!body.leases) continue;
        hang = isUrgent ? 0 : Math.min(hang, ttlMs - body.remaining_ms); // without a loss
        setLeft(until, sent, hang + body.remaining_ms);
        const rows = new Map(body.leases.map((/** @type {Json} */ row) => [row.lease_id, row]));
        for (const id of ids) {
            const proof = proofs.get(id), row = rows.get(id);
            if (proof && !row) setLeft(proof.until, [0, 0], 0);
            else if (proof && "remaining_ms" in row) // known to Redis
                setLeft(proof.until, sent, hang + row.remaining_ms);
        }
    }
}

/** A lock, or several, or a permit, that is held until the work is done. */
export class Lease {
    fencingToken = 0;
    reason = "";
    controller = new AbortController();
    /** @param {BigInt64Array[]} deadlines @param {number} early */
    constructor(deadlines, early) {
        this.isOver = () => deadlines.some((until) => left(until) <= early);
    }
    get lost() { return this.reason !== "" || this.isOver(); }
    check() {
        if (this.lost) this.end();
        if (this.reason) throw new LeaseLost(this.reason);
    }
    end(reason = "it has ended, or can no longer be proven") {
        this.reason ||= reason;
        this.controller.abort(new LeaseLost(this.reason));
    }
}

/** Servers, tried in turn. `ttlMs`: how long others wait when this process dies. */
export class Client {
    opening = /** @type {ReturnType<Client["open"]> | undefined} */ (undefined);
    thread = /** @type {Worker | undefined} */ (undefined);
    headers = {};
    until = instant(); // of the session
    waitMaxMs = 20000; // of one request
    constructor({ url = "", ttlMs = 30000 } = {}) {
        url ||= process.env.RLOCK_URL || "http://localhost:7400";
        this.urls = url.match(/[^, ]+/g) ?? []; // as rlock reads them
        this.ttlMs = ttlMs;
    }

    async open() { // unless a session lives: another caller may have opened it
        if (left(this.until) > 0) return { status: 200, body: { session_id: true } };
        const headers = { "Session-Token": randomUUID() }, sent = now(), { urls, ttlMs } = this;
        const answer = await ask(urls, "POST", "/v1/sessions", headers, {
            ttl_ms: ttlMs, name: `${hostname()}/${process.pid}` }, 5000);
        if (answer.status < 300 && answer.body.session_id) {
            const name = `/v1/sessions/${answer.body.session_id}`, until = instant();
            setLeft(until, sent, ttlMs);
            this.thread?.terminate();
            const thread = new Worker(new URL(import.meta.url), {
                execArgv: [], workerData: { rlockd: { name, urls, headers, ttlMs, until } } });
            thread.on("error", () => {}).on("exit", () => setLeft(until, [0, 0], 0)).unref();
            Object.assign(this, { headers, until, thread });
        }
        return answer;
    }

    /**
     * Attempts until an answer has the member; the answer, and when its request was sent.
     * @param {number} until @param {string} member @param {AbortSignal | undefined} signal
     * @param {(waitMs: number) => Promise<{ status: number, body: Json }>} attempt
     */
    async repeat(until, member, signal, attempt) {
        for (;;) {
            const sent = now(), wait = Math.max(0, Math.min(until - sent[0], this.waitMaxMs));
            const { status, body } = await attempt(wait), took = now()[0] - sent[0];
            const isLate = body.state === "held" && took >= body.remaining_ms / 2;
            if (status < 300 && body[member] && !isLate) return { body, sent };
            if (status === 400 && wait > 0 && body.detail?.startsWith("wait_ms:"))
                this.waitMaxMs = Math.min(this.waitMaxMs, Math.floor(wait / 2));
            else if (status >= 400 && ![408, 410, 423, 425, 429].includes(status))
                throw new RlockdError(`${status}: ${body.title}: ${body.detail}`);
            else if (status === 410 || signal?.aborted ||
                     now()[0] >= until + (status < 300 ? 1000 : 0)) // or at another server
                throw new NotAcquired(body.detail, { cause: signal?.reason ?? body.type });
            else await sleep(Math.max(100, Math.min(500, until - now()[0])));
        }
    }

    /**
     * Acquires a lease, calls the work, and releases the lease.
     * @template T
     * @param {string | string[]} name of several locks: all or none
     * @param {Options} options with `fields`, what else the API knows; `signal` ends the wait
     * @param {(signal: AbortSignal, lease: Lease) => T | Promise<T>} work
     * @returns {Promise<T>}
     */
    async lock(name, { waitMs = 0, kind = "lock", fields = {}, signal }, work) {
        const end = now()[0] + waitMs, escaped = encodeURIComponent(String(name));
        const [path, what] = kind === "permit" ? [`/v1/permit-semaphores/${escaped}/permit`, {}]
            : Array.isArray(name) ? ["/v1/multi-locks", { kind, locks: name }]
            : [`/v1/locks/${escaped}`, { kind }];
        await this.repeat(end + 1000, "session_id", signal, () => this.opening ??= this.open()
            .finally(() => { this.opening = undefined; }));
        const headers = { ...this.headers, "Lease-Token": randomUUID() }, until = instant();
        const { thread, until: session } = this, early = Math.min(500, this.ttlMs / 20);
        const lease = new Lease([until, session], early);
        let id = "", watch, result, failure = /** @type {any} */ (undefined);
        try {
            const { body, sent } = await this.repeat(end, "lease_id", signal, (ms) => ask(this.urls,
                "PUT", path, headers, { ...what, ...fields, wait_ms: ms }, ms + 5000, signal));
            setLeft(until, sent, body.remaining_ms);
            id = body.lease_id;
            lease.fencingToken = (body.locks?.[0] ?? body).fencing_token;
            thread?.postMessage({ id, proof: { ttlMs: body.ttl_ms, until } });
            watch = setInterval(() => lease.lost && lease.end(), early / 2);
            result = await work(lease.controller.signal, lease);
            lease.check();
        } catch (error) {
            failure = lease.reason ? new LeaseLost(lease.reason, { cause: error }) : error;
        }
        clearInterval(watch);
        lease.end("released");
        thread?.postMessage({ id });
        await this.repeat(now()[0] + 5000, "state", undefined, () => // it wins over every PUT
            ask(this.urls, "DELETE", path, headers, {}, 3000)).catch((cause) => {
            failure ??= new LeaseLost("its release was not confirmed", { cause });
        });
        if (!id && String(failure?.cause).endsWith(":session-ended") && now()[0] < end + 1000) {
            setLeft(session, [0, 0], 0), await sleep(100); // and again, in another one
            return this.lock(name, { waitMs: end - now()[0], kind, fields, signal }, work);
        }
        if (failure) throw failure;
        return /** @type {T} */ (result);
    }
}

if (workerData?.rlockd && parentPort) keep(parentPort, workerData.rlockd);
const standard = new Client();
/** @type {Client["lock"]} by a client for all of the process */
export const lock = (name, options, work) => standard.lock(name, options, work);
