// What an operator may change. Each change is asked for in a dialog, which names its object.
import {ask, longestMs, longestWaitMs, path} from "./api.js";
import {h} from "./dom.js";

const DAY_MS = 86400000;
const WAIT_MS = 20000; // of one request, less where the server allows less
const get = id => document.getElementById(id);
let refresh = () => {};

export function whenChanged(callback) {
  refresh = callback;
}

export function closeDialog() {
  get("dialog").close();
}

function field(label, of) {
  return h("label", null, label, h("input", {...of, name: of.name, autocomplete: "off"}));
}

function choice(label, name, values) {
  return h("label", null, label,
    h("select", {name}, ...values.map(([value, text]) => h("option", {value}, text))));
}

// `act` gets the values of the fields, and a signal that the dialog was closed; what it throws
// is shown, and the dialog stays open. `giveUp` follows if it is closed after that in vain.
function show({title, text, fields, label, busy = "…", isDanger = true, act, giveUp}) {
  const dialog = get("dialog"), form = dialog.querySelector("form");
  get("dialog-title").textContent = title;
  get("dialog-text").replaceChildren(...text.filter(Boolean).map(part => h("p", null, part)));
  get("dialog-fields").replaceChildren(...fields);
  get("dialog-do").textContent = label;
  get("dialog-do").disabled = false;
  get("dialog-do").className = isDanger ? "danger" : "";
  get("dialog-trouble").hidden = true;
  const stopped = new AbortController();
  get("dialog-cancel").onclick = () => dialog.close();
  let isTried = false;
  dialog.onclose = () => {
    stopped.abort();
    if (isTried && giveUp)
      giveUp();
  };
  form.onsubmit = async event => {
    event.preventDefault();
    get("dialog-do").disabled = true;
    get("dialog-do").textContent = busy;
    try {
      isTried = true;
      const said = await act(Object.fromEntries(new FormData(form)), stopped.signal);
      isTried = false;
      dialog.close();
      get("changes").textContent = said;
      refresh();
    } catch (error) {
      if (stopped.signal.aborted)
        return;
      get("dialog-trouble").textContent = error.message;
      get("dialog-trouble").hidden = false;
      get("dialog-do").disabled = false;
      get("dialog-do").textContent = label;
    }
  };
  dialog.showModal();
}

// The server bounds a reason in bytes of UTF-8.
const REASON = {name: "reason", required: true, maxlength: 256};

export function askForceUnlock(name, holder, fencingToken) {
  show({
    title: `Force-unlock ${name}`,
    text: [["The lock is taken from ", h("strong", null, holder), "."],
      "The holder may still be at work. Only storage that checks fencing tokens is safe from " +
        "its late writes.",
      "If another holder has the lock meanwhile, nothing happens. The reason goes to the log " +
        "and to the former holder."],
    fields: [field("Reason", REASON)],
    label: "Force-unlock",
    act: async ({reason}) => {
      const told = await ask("POST", path(["locks", name, "force-unlock"]),
        {headers: {"If-Match": `"${fencingToken}"`}, body: {reason}});
      return told.unlocked ? `${name} was unlocked.` : `${name} was free already.`;
    },
  });
}

export function askEndSession(id, name) {
  show({
    title: `End the session ${name || id}`,
    text: ["All its locks are free at once, and the next waiters get them.",
      "The client may still be at work: it learns of this at its next request. The reason " +
        "goes to the log."],
    fields: [field("Reason", REASON)],
    label: "End the session",
    act: async ({reason}) => {
      const told = await ask("POST", path(["sessions", id, "force-end"]), {body: {reason}});
      return `The session has ended; leases released: ${told.released}.`;
    },
  });
}

// The permits of a group of machines that speak FleetLock; each has its machine's id as the note.
export const FLEET = "fleetlock/";

export function askFreeSlot(name, machine) {
  const group = name.slice(FLEET.length);
  show({
    title: `Free the slot of ${machine}`,
    text: [`The next machine of the group ${group} may reboot then.`,
      "A machine keeps its slot until it reports that it is up again. Free the slot of a " +
        "machine that will not come back, or whose failed update you have looked at."],
    fields: [],
    label: "Free the slot",
    busy: "Freeing the slot…",
    act: async () => {
      await ask("POST", `/${FLEET}v1/steady-state`, {headers: {"fleet-lock-protocol": "true"},
        body: {client_params: {id: machine, group}}});
      return `${machine} has no slot any more.`;
    },
  });
}

// A <input type="datetime-local"> knows no time zone: it means that of the reader.
function localTime(ms) {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// A free UUID: crypto.randomUUID() is missing where the page came without TLS.
function newToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = bytes[6] & 0x0f | 0x40;
  bytes[8] = bytes[8] & 0x3f | 0x80;
  return [...bytes].map(byte => byte.toString(16).padStart(2, "0")).join("")
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

// An ordinary lease without a session, with an end, of the kind that others use for this lock. It
// waits in the line like each other request until the dialog is closed.
export function askHold(name, told) {
  const latest = Date.now() + longestMs(), token = newToken(), isHeld = told.locked;
  const heldKind = told.kind === "read" ? "write" : told.kind;
  show({
    title: `Hold ${name}`,
    text: ["Nobody else gets the lock until then. Force-unlock frees it earlier. The reason " +
      "is shown to everybody who looks or waits.",
    isHeld ? "The lock is held now. You wait in the line while this dialog is open." : ""],
    fields: [
      field("Reason, and for whom", {...REASON, name: "note"}),
      field("Until", {name: "until", type: "datetime-local", required: true,
        min: localTime(Date.now()), max: localTime(latest),
        value: localTime(Math.min(Date.now() + DAY_MS, latest))}),
      ...isHeld ? [] : [choice("Others acquire it as", "kind", [["lock", "a plain lock"],
        ["fair", "a fair lock"], ["write", "a read/write lock"]])],
    ],
    label: isHeld ? "Wait, then hold the lock" : "Hold the lock",
    busy: isHeld ? "Waiting in the line…" : "…",
    isDanger: false,
    act: async ({note, until, kind = heldKind}, signal) => {
      await acquire(name, token, {note, kind, until: new Date(until).getTime()}, signal);
      return `${name} is held.`;
    },
    giveUp: () => release(name, token),
  });
}

// An answer may have been lost. DELETE wins over every PUT with its token.
async function release(name, token) {
  for (let tries = 0; tries < 5; tries++) {
    try {
      await ask("DELETE", path(["locks", name]), {headers: {"Lease-Token": token}});
      return;
    } catch (error) {
      if (error.status >= 400 && error.status < 500 && error.status !== 429)
        return;
    }
    await new Promise(resolve => setTimeout(resolve, 1000));
  }
}

async function acquire(name, token, {note, kind, until}, signal) {
  const wait_ms = Math.min(WAIT_MS, longestWaitMs());
  for (;;) {
    const ttl_ms = Math.min(until - Date.now(), longestMs());
    try {
      return await ask("PUT", path(["locks", name]),
        {headers: {"Lease-Token": token}, body: {note, kind, ttl_ms, wait_ms}, signal});
    } catch (error) {
      if (error.status !== 423)
        throw error;
    }
  }
}
