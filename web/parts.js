// Holders and waiters, as every view shows them.
import {may} from "./api.js";
import {askForceUnlock} from "./actions.js";
import {foreign, h, since} from "./dom.js";
import {link} from "./state.js";

export function lockLink(name) {
  return h("a", {href: link("lock", name)}, foreign(name));
}

// The locks that a lease holds or waits for: several at once, or one.
export function locksOf(lease) {
  return (lease.locks || [lease]).map(({lock}) => lock).filter(Boolean);
}

function short(id) {
  return h("code", {title: id}, id.slice(0, 8));
}

// The name that says most of a holder or a waiter.
export function person(of) {
  if (of.redisson_holder)
    return ["Java client ", foreign(of.redisson_holder)];
  const session = of.session_name ? foreign(of.session_name)
    : of.session_id ? ["session ", short(of.session_id)] : undefined;
  const who = [of.caller && foreign(of.caller),
    session && h("a", {href: link("session", of.session_id)}, session),
    of.owner && foreign(of.owner)].filter(Boolean);
  if (who.length > 0)
    return who.flatMap((part, i) => i > 0 ? [" · ", part] : [part]);
  if (of.redisson_permit)
    return ["Java client, permit ", short(of.redisson_permit)];
  return of.lease_id ? ["lease ", short(of.lease_id)] : "unknown";
}

export function withNote(of) {
  return [person(of), of.note && [" ", foreign(of.note, {class: "foreign note"})]];
}

export function holders(lock) {
  const shown = lock.holders.map(holder => h("div", {class: "person"}, withNote(holder)));
  const more = (lock.holder_count || 0) - lock.holders.length;
  return more > 0 ? [...shown, `and ${more} more`] : shown;
}

export function heldFor(lock) {
  const longest = [...lock.holders].sort((a, b) => (b.held_ms ?? -1) - (a.held_ms ?? -1))[0];
  return longest && since(longest.held_ms, longest.held_at_least);
}

// A fair lock has a queue, which the server tells in its order. Waiters of another lock come in
// no order: those that have waited the longest are the next ones, as a rule.
export function inLine(lock) {
  const waiters = lock.waiters || [];
  return lock.kind === "fair" ? waiters
    : [...waiters].sort((a, b) => (b.waited_ms ?? 0) - (a.waited_ms ?? 0));
}

export function line(lock) {
  const waiters = inLine(lock);
  const more = (lock.waiter_count ?? waiters.length) - waiters.length;
  if (waiters.length === 0)
    return more > 0 ? `${more} wait` : "nobody";
  return [h("ol", {class: "line"}, waiters.map(waiter => h("li", null, withNote(waiter),
    waiter.waited_ms !== undefined && [" for ", since(waiter.waited_ms)]))),
    more > 0 && h("a", {href: link("lock", lock.lock)}, `and ${more} more`)];
}

// Only the grant that is shown is freed, so a holder without a fencing token has no button.
export function forceButton(lock, holder) {
  const token = holder.fencing_token ?? (lock.holders.length === 1 && lock.fencing_token);
  if (!may("operate", lock.lock) || !token || holder.redisson_holder)
    return undefined;
  return h("button", {class: "danger", "data-key": `force-${token}`,
    act: () => askForceUnlock(lock.lock, withNote(holder), token)}, "Force-unlock…");
}
