// The views of many: each asks the server, and returns the elements of its picture and how old
// that picture was when it came.
import {ask, may, path, Refusal} from "./api.js";
import {askEndSession, askFreeSlot, FLEET} from "./actions.js";
import {facts, foreign, h, since, table, until} from "./dom.js";
import {heldFor, holders, line, lockLink} from "./parts.js";
import {link} from "./state.js";

const PAGE = 100;
// A page of a listing may be short while there is more: as many are joined to one of ours.
const JOINED_MAX = 4;

function search(view, name, label, value, others = []) {
  return h("form", {class: "search", "data-view": view, "data-key": "search"},
    h("label", null, label + " ", h("input", {name, value: value || "", autocomplete: "off"})),
    others, h("button", null, "Show"));
}

function pages(view, fields, next) {
  return h("p", {class: "buttons"},
    fields.cursor && h("a", {href: link(view, "", {...fields, cursor: ""})}, "First page"),
    next && h("a", {href: link(view, "", {...fields, cursor: next})}, "Next page"));
}

async function longest(order, fields, signal) {
  return ask("GET", path(["locks"], {order, prefix: fields.prefix, limit: PAGE}), {signal});
}

const NO_PICTURE = "The server has no picture of all locks yet: it makes one after its start.";

// Whether the server lists by order; an earlier version does not.
export async function knowsOrder() {
  try {
    await ask("GET", path(["locks"], {order: "waited", limit: 1}));
    return true;
  } catch (error) {
    return !(error instanceof Refusal) || error.status !== 400;
  }
}

export async function waiting({fields, signal}) {
  const told = await longest("waited", fields, signal);
  const rows = told.locks.map(lock => ({key: lock.lock, cells: [lockLink(lock.lock),
    since(lock.waited_ms), holders(lock), heldFor(lock), until(lock.remaining_ms), line(lock)]}));
  return {ageMs: told.as_of, told, body: [
    h("p", {class: "hint"}, "Locks that a request has waited for, for a second or longer."),
    search("waiting", "prefix", "Names that begin with", fields.prefix),
    table("Waiting, the longest wait first",
      ["Lock", "Longest wait", "Held by", "Held for", "Ends in", "Line of waiters"], rows,
      told.as_of === null ? NO_PICTURE : "Nobody waits for longer than a second.")]};
}

export async function held({fields, signal}) {
  const told = await longest("held", fields, signal);
  const rows = told.locks.map(lock => ({key: lock.lock, cells: [lockLink(lock.lock),
    since(lock.held_ms, lock.held_at_least), holders(lock), until(lock.remaining_ms)]}));
  return {ageMs: told.as_of, told, body: [
    search("held", "prefix", "Names that begin with", fields.prefix),
    table("Held, the longest first", ["Lock", "Held for", "Held by", "Ends in"], rows,
      told.as_of === null ? NO_PICTURE : "No lock is held.")]};
}

export async function locks({fields, signal}) {
  const found = [];
  let told = {next_cursor: fields.cursor};
  for (let i = 0; i === 0 || i < JOINED_MAX && told.next_cursor && found.length < PAGE; i++) {
    told = await ask("GET", path(["locks"], {prefix: fields.prefix,
      limit: PAGE - found.length, cursor: told.next_cursor || ""}), {signal});
    found.push(...told.locks);
  }
  const unique = [...new Map(found.map(lock => [lock.lock, lock])).values()]
    .sort((a, b) => a.lock < b.lock ? -1 : 1);
  const rows = unique.map(lock => ({key: lock.lock, cells: [lockLink(lock.lock), lock.kind,
    holders(lock), heldFor(lock), until(lock.remaining_ms)]}));
  return {told, body: [
    search("locks", "prefix", "Names that begin with", fields.prefix),
    table("Locks that are held", ["Lock", "Kind", "Held by", "Held for", "Ends in"], rows,
      told.next_cursor ? "None of the locks on this page is held." : "No lock is held."),
    pages("locks", fields, told.next_cursor),
    h("form", {class: "search", "data-view": "lock", "data-key": "look"},
      h("label", null, "Look at the lock ",
        h("input", {name: "name", required: true, maxlength: 512, autocomplete: "off"})),
      h("button", null, "Look"))]};
}

export async function sessions({fields, signal}) {
  const told = await ask("GET", path(["sessions"], {limit: PAGE, cursor: fields.cursor}),
    {signal});
  const rows = told.sessions.map(session => ({key: session.session_id, cells: [
    h("a", {href: link("session", session.session_id)},
      session.name ? foreign(session.name) : h("code", null, session.session_id)),
    since(session.ttl_ms - session.remaining_ms), until(session.remaining_ms),
    since(session.age_ms), String(session.lease_count)]}));
  return {told, body: [
    h("p", {class: "hint"}, "A session is one live client process. Its leases end when it has " +
      "not spoken for its time to live."),
    table("Sessions", ["Session", "Spoke last, ago", "Ends in", "Open for", "Leases"], rows,
      "No session is open."),
    pages("sessions", fields, told.next_cursor)]};
}

export async function session({name: id, signal}) {
  const told = await ask("GET", path(["sessions", id], {limit: PAGE}), {signal});
  const rows = told.leases.map(lease => {
    const names = lease.locks ? lease.locks.map(one => one.lock) : [lease.lock].filter(Boolean);
    return {key: lease.lease_id, cells: [
      names.length > 0 ? names.map(name => h("div", null, lockLink(name)))
        : foreign(lease.permit_semaphore || "a permit"),
      [lease.kind || lease.state, lease.owner && [" · ", foreign(lease.owner)]],
      lease.note && foreign(lease.note), since(lease.held_ms), until(lease.remaining_ms),
      lease.watchdog === undefined ? "" : lease.watchdog ? "the watchdog" : "nobody"]};
  });
  const waits = told.waits?.map((wait, i) => ({key: wait.lock || `wait-${i}`, cells: [
    wait.lock ? lockLink(wait.lock) : "a lock that you may not look at",
    wait.owner && foreign(wait.owner), since(wait.waited_ms)]}));
  return {told, body: [
    h("h2", null, "Session ", foreign(told.name || id)),
    facts([["Id", h("code", null, id)], ["Spoke last, ago", since(told.ttl_ms -
      told.remaining_ms)], ["Ends in", until(told.remaining_ms)], ["Open for",
      since(told.age_ms)]]),
    may("operate", "") && h("p", null, h("button", {class: "danger",
      act: () => askEndSession(id, told.name)}, "End this session…")),
    waits && table("Waits for", ["Lock", "Owner", "For"], waits, "It waits for no lock."),
    table("Leases", ["Lock", "Kind", "Note", "Held for", "Ends in", "Renewed by"], rows,
      "It holds nothing."),
    told.next_cursor && h("p", null, `Only the first ${PAGE} leases are shown.`)]};
}

const COUNTERS = [["semaphores", "Semaphore"], ["permit-semaphores", "Permit semaphore"],
  ["latches", "Latch"]];
const WORDS = {available: "Free permits", permits: "Permits in all", count: "Counts to go",
  waiter_count: "Requests that wait"};

async function counter(kind, name, signal) {
  const told = await ask("GET", path([kind, name]), {signal});
  const permits = Array.isArray(told.permits) ? told.permits : told.holders || told.leases || [];
  const isFleet = name.startsWith(FLEET) && may("lock", name);
  const rows = permits.map(permit => ({key: permit.lease_id || permit.permit_id, cells: [
    h("code", null, permit.lease_id || permit.permit_id || ""), permit.caller &&
    foreign(permit.caller), permit.note && foreign(permit.note), until(permit.remaining_ms),
    ...isFleet ? [permit.note && h("button", {class: "danger",
      act: () => askFreeSlot(name, permit.note)}, "Free the slot…")] : []]}));
  return {told, body: [h("h2", null, foreign(name)),
    facts(Object.entries(WORDS).filter(([key]) => typeof told[key] === "number")
      .map(([key, word]) => [word, String(told[key])])),
    rows.length > 0 && table("Permits that are held",
      ["Lease", "Caller", "Note", "Ends in", ...isFleet ? ["Action"] : []], rows)]};
}

export async function counters({fields, signal}) {
  const choice = h("label", null, "Kind ", h("select", {name: "kind"}, COUNTERS.map(
    ([kind, word]) => h("option", {value: kind, selected: kind === fields.kind}, word))));
  const form = search("counters", "name", "Name", fields.name, [choice]);
  const hint = h("p", {class: "hint"}, "Semaphores and latches are in no list: type a name.");
  const isKnown = COUNTERS.some(([kind]) => kind === fields.kind);
  if (!fields.name || !isKnown)
    return {body: [hint, form]};
  try {
    const {told, body} = await counter(fields.kind, fields.name, signal);
    return {told, body: [hint, form, body]};
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 404)
      throw error;
    return {body: [hint, form, h("p", null, "There is none of this kind and name.")]};
  }
}

