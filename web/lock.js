// One lock: who holds it, who waits and why, and what this page has seen of it.
import {ask, longestMs, may, path} from "./api.js";
import {askHold} from "./actions.js";
import {duration, facts, foreign, h, since, svg, table, until} from "./dom.js";
import {forceButton, inLine, lockLink, locksOf, person, withNote} from "./parts.js";

const SEEN_MAX = 600, LOCKS_MAX = 50; // pictures of a lock, and locks, that are remembered
const CHAIN_MAX = 8; // locks of a chain: each costs two requests at most

// --- the life line

const lives = new Map(); // name -> pictures, the oldest first

function remember(name, told) {
  const life = lives.get(name) || [];
  lives.delete(name);
  lives.set(name, life);
  if (lives.size > LOCKS_MAX)
    lives.delete(lives.keys().next().value);
  life.push({at: performance.now(), isHeld: told.locked, grant: told.fencing_token,
    isWaited: told.waiter_count > 0});
  if (life.length > SEEN_MAX)
    life.shift();
  return life;
}

// From when to when `isSo` was true of each picture.
function stretches(life, isSo) {
  const found = [];
  life.slice(1).forEach((picture, i) => {
    const before = life[i], last = found.at(-1);
    if (!isSo(before))
      return;
    if (last?.to === before.at)
      last.to = picture.at;
    else
      found.push({from: before.at, to: picture.at});
  });
  return found;
}

const lengthOf = found => found.reduce((sum, {from, to}) => sum + to - from, 0);

function lifeLine(life) {
  const head = h("h3", null, "Life line, as this page has seen it");
  if (life.length < 2)
    return h("section", {"data-key": "life"}, head,
      h("p", {class: "hint"}, "The page has just begun to watch the lock."));
  const first = life[0].at, whole = Math.max(life.at(-1).at - first, 1);
  const x = at => 100 * (at - first) / whole;
  const held = stretches(life, picture => picture.isHeld);
  const waited = stretches(life, picture => picture.isWaited);
  const grants = life.filter((picture, i) => i > 0 && picture.isHeld &&
    picture.grant !== life[i - 1].grant);
  const bar = (name, y, height) => ({from, to}) =>
    svg("rect", {class: name, x: x(from), y, width: x(to) - x(from), height});
  const words = `In the last ${duration(whole)}: held for ${duration(lengthOf(held))}, ` +
    `waited for during ${duration(lengthOf(waited))}, handed on ${grants.length} ` +
    `${grants.length === 1 ? "time" : "times"}.`;
  const drawn = svg("svg", {class: "life", viewBox: "0 0 100 30", role: "img",
    "aria-label": words, preserveAspectRatio: "none"},
  ...held.map(bar("held", 4, 12)), ...waited.map(bar("waited", 20, 6)),
  ...grants.map(({at}) => svg("line", {class: "handed", x1: x(at), x2: x(at), y1: 0, y2: 30})));
  return h("section", {"data-key": "life"},
    head, drawn,
    h("p", {class: "hint legend"}, h("i", {class: "held"}), "held ", h("i", {class: "waited"}),
      "waited for ", h("i", {class: "handed"}), "handed on. ", words));
}

// --- why

function deadlock(told) {
  if (!told.deadlock?.length)
    return undefined;
  return h("section", {class: "deadlock", role: "group", "aria-label": "Deadlock"},
    h("h3", null, "A deadlock"),
    h("p", null, "Each of these holds a lock that another one waits for, in a circle. None " +
      "of them goes on until a wait ends, a session ends, or a lock is freed by force."),
    h("ol", null, told.deadlock.map(member => h("li", null, withNote(member), " waits for ",
      member.lock ? lockLink(member.lock) : "a lock that you may not look at"))));
}

function isOfOwner(wait, holder) {
  return (wait.owner ?? "") === (holder.owner ?? "");
}

// The first wait of the holder's session of which the server tells. It tells of no wait of less
// than a second, of none for locks that the caller may not look at, and of none at all where it
// does not search for deadlocks.
async function waitOf(holder, signal) {
  const session = await ask("GET", path(["sessions", holder.session_id], {limit: 1}), {signal});
  return {isTold: session.waits !== undefined,
    wait: session.waits?.find(wait => locksOf(wait)[0] && isOfOwner(wait, holder))};
}

function enumerated(links) {
  return links.map((link, i) => [i === 0 ? "" : i < links.length - 1 ? ", " : " and ", link]);
}

// From the lock to its holder, to the lock for which this one waits, and so on.
async function chain(name, told, signal) {
  const steps = [], seen = new Set();
  for (let lock = told; steps.length < CHAIN_MAX; ) {
    const holder = lock.holders[0];
    if (!holder) {
      steps.push([lockLink(lock.lock), " is free now"]);
      break;
    }
    const held = [lockLink(lock.lock), " is held by ", person(holder)];
    if (!holder.session_id) {
      steps.push([held, holder.redisson_holder ? "" : ", without a session",
        ": what the holder waits for is not known"]);
      break;
    }
    const {isTold, wait} = await waitOf(holder, signal).catch(() => ({}));
    seen.add(lock.lock);
    if (!wait) {
      const end = steps.length > 0 ? ": the known end of the chain" : "";
      steps.push([held, isTold &&
        h("strong", null, ", which waits for no lock that the server tells of", end)]);
      break;
    }
    steps.push([held, ", which waits for ", enumerated(locksOf(wait).map(lockLink)),
      wait.locks && " at once", " for ", since(wait.waited_ms)]);
    if (!wait.lock || seen.has(wait.lock)) // which one of several is not free, nobody tells
      break;
    lock = await ask("GET", path(["locks", wait.lock]), {signal});
  }
  return h("section", {"data-key": "why"}, h("h3", null, "Why it is not free"),
    h("ol", null, steps.map(step => h("li", null, step))));
}

// --- the view

function quoted(name) {
  return /^[\w./:@%+-]+$/.test(name) && !name.startsWith("-") ? name
    : `'${name.replaceAll("'", "'\\''")}'`;
}

function copyButton(label, text) {
  return h("button", {act: async () => {
    const said = await navigator.clipboard?.writeText(text).then(() => `Copied: ${text}`,
      () => undefined);
    document.getElementById("changes").textContent = said || "";
    if (!said)
      window.prompt(label, text);
  }}, label);
}

function holderRows(told) {
  return told.holders.map((holder, i) => ({
    // One owner, or one thread of a Java client, may write and read.
    key: [holder.kind, holder.lease_id || holder.redisson_holder || holder.session_id,
      holder.owner].join(" "),
    cells: [person(holder), holder.note && foreign(holder.note),
      since(holder.held_ms, holder.held_at_least),
      until(holder.remaining_ms ?? told.remaining_ms),
      holder.fencing_token ?? (i === 0 ? told.fencing_token : undefined),
      forceButton(told, holder)]}));
}

function waiterRows(told) {
  return inLine(told).map((waiter, i) => ({key: waiter.lease_id || waiter.redisson_holder,
    cells: [[`${i + 1}. `, person(waiter)], waiter.note && foreign(waiter.note),
      since(waiter.waited_ms), until(waiter.remaining_ms)]}));
}

export async function lock({name, signal}) {
  const told = await ask("GET", path(["locks", name]), {signal});
  const life = remember(name, told);
  const more = told.waiter_count - told.waiters.length;
  const why = told.locked ? await chain(name, told, signal) : undefined;
  return {body: [
    h("h2", null, "Lock ", foreign(name)),
    facts([["State", told.locked ? "held" : "free"], ["Kind", told.kind],
      ["Last fencing token", told.locked ? "" : told.fencing_token]]),
    h("p", {class: "buttons"},
      may("lock", name) && longestMs() > 0 && h("button",
        {act: () => askHold(name, told)}, "Hold for a person…"),
      copyButton("Copy link", location.href),
      copyButton("Copy as rlock command", `rlock show ${quoted(name)}`)),
    deadlock(told), why,
    table("Held by", ["Holder", "Note", "Held for", "Ends in", "Fencing token", "Action"],
      holderRows(told), "Nobody holds the lock."),
    table("Line of waiters", ["Waiter", "Note", "Has waited for", "Gives up in"],
      waiterRows(told), "Nobody waits for the lock."),
    more > 0 && h("p", null, `and ${more} more`),
    lifeLine(life)]};
}
