// clients/node/rlockd.mjs for the conformance kit.
import { createInterface } from "node:readline";
import { Client, LeaseLost, NotAcquired } from "../../clients/node/rlockd.mjs";

const clients = new Map(), works = new Map();

function tell(event, id, members = {}) {
    console.log(JSON.stringify({ event, id, ...members }));
}

async function acquire({ id, lock, also, kind, wait_ms: waitMs, ttl_ms: ttlMs }) {
    const work = { cancel: new AbortController(), isTold: false };
    work.end = new Promise((resolve) => { work.release = resolve; });
    works.set(id, work);
    if (!clients.has(ttlMs)) clients.set(ttlMs, new Client({ ttlMs }));
    try {
        await clients.get(ttlMs).lock(also ? [lock, ...also] : lock,
            { waitMs, kind, signal: work.cancel.signal },
            async (signal, lease) => {
                work.lease = lease;
                signal.addEventListener("abort", () => {
                    work.isTold = signal.reason instanceof LeaseLost && lease.reason !== "released";
                    if (work.isTold) tell("lost", id);
                    work.release();
                });
                tell("held", id, { fencing_token: lease.fencingToken });
                await work.end;
            });
        tell("released", id);
    } catch (error) {
        if (work.isTold) return;
        if (error instanceof LeaseLost) tell("lost", id);
        else if (error instanceof NotAcquired)
            tell(work.cancel.signal.aborted ? "cancelled" : "busy", id);
        else tell("failed", id, { detail: String(error) });
    }
}

createInterface(process.stdin).on("line", (line) => {
    const command = JSON.parse(line), work = works.get(command.id);
    if (command.do === "acquire") acquire(command);
    else if (command.do === "release") work.release();
    else if (command.do === "cancel") work.cancel.abort();
    else tell("status", command.id, { held: work.lease !== undefined && !work.lease.lost });
}).on("close", () => process.exit());
