// The views of many: each asks the server, and returns the elements of its picture and how old
// that picture was when it came.
import {ask, may, path, readPrefix} from "./api.js";
import {askEndSession, askFreeSlot, FLEET} from "./actions.js";
import {facts, foreign, h, since, table, until} from "./dom.js";
import {heldFor, holders, line, lockLink, locksOf, person} from "./parts.js";
import {link} from "./state.js";

const PAGE = 100;
// A page of a listing may be short while there is more: as many are joined to one of ours.
const JOINED_MAX = 4;

function search(view, prefix) {
  return h("form", {class: "search", "data-view": view, "data-key": "search"},
    h("label", null, "Names that begin with ",
      h("input", {name: "prefix", value: prefix, autocomplete: "off"})),
    h("button", null, "Show"));
}

function pages(view, fields, next) {
  return h("p", {class: "buttons"},
    fields.cursor && h("a", {href: link(view, "", {...fields, cursor: ""})}, "First page"),
    next && h("a", {href: link(view, "", {...fields, cursor: next})}, "Next page"));
}

async function longest(order, fields, signal) {
  const prefix = fields.prefix || readPrefix();
  return ask("GET", path(["locks"], {order, prefix, limit: PAGE}), {signal});
}

const NO_PICTURE = "The server has no picture of all locks yet: it makes one after its start.";

export async function waiting({fields, signal}) {
  const told = await longest("waited", fields, signal);
  const rows = told.locks.map(lock => ({key: lock.lock, cells: [
    [lockLink(lock.lock), lock.deadlock && [" ", h("span", {class: "mark"}, "deadlock")]],
    since(lock.waited_ms), holders(lock), heldFor(lock), until(lock.remaining_ms),
    line(lock)]}));
  return {ageMs: told.as_of, body: [
    search("waiting", fields.prefix || readPrefix()),
    table("Waiting, the longest wait first",
      ["Lock", "Longest wait", "Held by", "Held for", "Ends in", "Line of waiters"], rows,
      told.as_of === null ? NO_PICTURE : "Nobody waits for longer than a second.")]};
}

export async function held({fields, signal}) {
  const told = await longest("held", fields, signal);
  const rows = told.locks.map(lock => ({key: lock.lock, cells: [lockLink(lock.lock),
    since(lock.held_ms, lock.held_at_least), holders(lock), until(lock.remaining_ms)]}));
  return {ageMs: told.as_of, body: [
    search("held", fields.prefix || readPrefix()),
    table("Held, the longest first", ["Lock", "Held for", "Held by", "Ends in"], rows,
      told.as_of === null ? NO_PICTURE : "No lock is held.")]};
}

// A page of the listing `of`, whose entries have their names in the member `name`: sorted, and
// each name once.
async function pageOf(of, name, fields, signal) {
  const found = new Map();
  let next = fields.cursor;
  for (let i = 0; i === 0 || i < JOINED_MAX && next && found.size < PAGE; i++) {
    const told = await ask("GET", path([of], {prefix: fields.prefix || readPrefix(),
      limit: PAGE - found.size, cursor: next || ""}), {signal});
    told[of].forEach(entry => found.set(entry[name], entry));
    next = told.next_cursor;
  }
  return {next, entries: [...found.values()].sort((a, b) => a[name] < b[name] ? -1 : 1)};
}

export async function locks({fields, signal}) {
  const {next, entries} = await pageOf("locks", "lock", fields, signal);
  const rows = entries.map(lock => ({key: lock.lock, cells: [lockLink(lock.lock), lock.kind,
    holders(lock), heldFor(lock), until(lock.remaining_ms)]}));
  return {body: [
    h("div", {class: "searches", "data-key": "searches"},
      search("locks", fields.prefix || readPrefix()),
      h("form", {class: "search", "data-view": "lock"},
        h("label", null, "One lock, also a free one ",
          h("input", {name: "name", required: true, maxlength: 512, autocomplete: "off"})),
        h("button", null, "Look"))),
    table("Locks that are held", ["Lock", "Kind", "Held by", "Held for", "Ends in"], rows,
      next ? "None of the locks on this page is held." : "No lock is held."),
    pages("locks", fields, next)]};
}

export async function sessions({fields, signal}) {
  const told = await ask("GET", path(["sessions"], {limit: PAGE, cursor: fields.cursor}),
    {signal});
  const rows = told.sessions.map(session => ({key: session.session_id, cells: [
    h("a", {href: link("session", session.session_id)},
      session.name ? foreign(session.name) : h("code", null, session.session_id)),
    since(session.ttl_ms - session.remaining_ms), until(session.remaining_ms),
    since(session.age_ms), String(session.lease_count)]}));
  return {body: [
    h("p", {class: "hint"}, "A session is one live client process. It ends, and its locks " +
      "are free, when the server has not heard from it in time."),
    table("Sessions", ["Session", "Last heard from, ago", "Ends in", "Open for", "Leases"],
      rows, "No session is open."),
    pages("sessions", fields, told.next_cursor)]};
}

function lockLinks(lease) {
  const names = locksOf(lease);
  return names.length > 0 && names.map(name => h("div", null, lockLink(name)));
}

// One token may stand for a lease of each lock.
function keyOf(lease) {
  return [lease.lease_id, lease.permit_semaphore, ...locksOf(lease)].join(" ");
}

export async function session({name: id, signal}) {
  const told = await ask("GET", path(["sessions", id], {limit: PAGE}), {signal});
  const name = lease => lease.lock || lease.locks?.[0].lock || lease.permit_semaphore || "";
  const leases = told.leases.sort((a, b) => name(a) < name(b) ? -1 : 1);
  const rows = leases.map(lease => ({key: keyOf(lease), cells: [
    lockLinks(lease) || foreign(lease.permit_semaphore || "a permit"),
    [lease.kind || lease.state, lease.owner && [" · ", foreign(lease.owner)]],
    lease.note && foreign(lease.note), since(lease.held_ms), until(lease.remaining_ms),
    lease.watchdog === undefined ? "" : lease.watchdog ? "renewed while the session lives"
      : "not renewed"]}));
  const waits = told.waits?.map(wait => ({key: keyOf(wait), cells: [
    lockLinks(wait) || "a lock whose name is no text", wait.owner && foreign(wait.owner),
    since(wait.waited_ms)]}));
  return {body: [
    h("h2", null, "Session ", foreign(told.name || id)),
    facts([["Id", h("code", null, id)],
      ["Last heard from", [since(told.ttl_ms - told.remaining_ms), " ago"]],
      ["Ends in", [until(told.remaining_ms), " unless the server hears from it"]],
      ["Open for", since(told.age_ms)]]),
    may("operate", "") && h("p", null, h("button", {class: "danger",
      act: () => askEndSession(id, told.name)}, "End this session…")),
    waits && table("Waits for", ["Lock", "Owner", "For"], waits,
      "It waits for no lock that the server tells of."),
    table("Leases", ["Lock", "Kind", "Note", "Held for", "Ends in", "Renewal"], rows,
      "It holds nothing."),
    told.next_cursor && h("p", null, `Only the first ${PAGE} leases are shown.`)]};
}

// Redis keeps a latch as it keeps a semaphore: as one number. So the page shows both alike.
const NUMBER = "Free permits, or counts to go";

export async function counters({fields, signal}) {
  const {next, entries} = await pageOf("semaphores", "semaphore", fields, signal);
  const rows = entries.map(one => ({key: one.semaphore, cells: [
    h("a", {href: link("counter", one.semaphore)}, foreign(one.semaphore)),
    String(one.available), String(one.holder_count), String(one.waiter_count)]}));
  return {body: [
    search("counters", fields.prefix || readPrefix()),
    table("Semaphores, permit semaphores and latches",
      ["Name", NUMBER, "Permits with an end that are held", "Requests that wait"], rows,
      next ? "There is none on this page." : "There is none."),
    pages("counters", fields, next)]};
}

export async function counter({name, signal}) {
  const told = await ask("GET", path(["permit-semaphores", name]), {signal});
  const isFleet = name.startsWith(FLEET) && may("lock", name);
  const rows = told.holders.map(permit => ({key: permit.lease_id || permit.redisson_permit,
    cells: [person(permit), permit.note && foreign(permit.note), since(permit.held_ms),
      until(permit.remaining_ms), ...isFleet ? [permit.note && h("button", {class: "danger",
        act: () => askFreeSlot(name, permit.note)}, "Free the slot…")] : []]}));
  const more = told.holder_count - told.holders.length;
  return {body: [
    h("h2", null, "Semaphore or latch ", foreign(name)),
    facts([[NUMBER, String(told.available)],
      ["Requests that wait", String(told.waiter_count)]]),
    table("Permits that are held",
      ["Holder", "Note", "Held for", "Ends in", ...isFleet ? ["Action"] : []], rows,
      "No permit with an end is held."),
    more > 0 && h("p", null, `and ${more} more`)]};
}
