// The frame of the page: which view is shown, when the server is asked, and how old the picture
// is. One request or chain of requests is under way at a time.
import {learnRights, Refusal} from "./api.js";
import {whenChanged} from "./actions.js";
import {duration, h, morph, tick} from "./dom.js";
import {lock} from "./lock.js";
import {link, readState} from "./state.js";
import * as views from "./views.js";

const EVERY_MS = 2000;
// The server is asked for at most a tenth of the time, however slow its answers are.
const SHARE = 10;
const OLD_MS = 10000;

const SHOWN = {waiting: views.waiting, held: views.held, locks: views.locks, lock,
  sessions: views.sessions, session: views.session, counters: views.counters};
const PARENTS = {lock: "locks", session: "sessions"};

const get = id => document.getElementById(id);
let timer, asking, takenAt, isRefused = false, hasOrder = false, shown;

// --- the state

function view() {
  const state = readState();
  const isKnown = Object.hasOwn(SHOWN, state.view) &&
    (!PARENTS[state.view] || state.name) &&
    (hasOrder || !["waiting", "held"].includes(state.view));
  return isKnown ? state : {view: hasOrder ? "waiting" : "locks", fields: {}};
}

function showPlace(state) {
  for (const item of document.querySelectorAll("nav a")) {
    if (item.hash === "#" + (PARENTS[state.view] || state.view))
      item.setAttribute("aria-current", "page");
    else
      item.removeAttribute("aria-current");
  }
}

function showTrouble(text) {
  get("trouble").textContent = text;
  get("trouble").hidden = !text;
}

function showAge() {
  const age = get("age"), isPaused = document.hidden;
  const ms = takenAt === undefined ? undefined : performance.now() - takenAt;
  age.textContent = isPaused ? "Paused while this page is hidden."
    : ms === undefined ? "No picture yet." : `This picture is ${duration(ms)} old.`;
  age.classList.toggle("old", ms > OLD_MS);
  document.title = (isPaused ? "(paused) " : "") + titleOf(view());
}

function titleOf({view: name, name: about}) {
  return `${about || get("main").querySelector("caption")?.textContent || name} – rlockd`;
}

// --- asking

// A picture that no longer matters, of a view that was left, is dropped.
async function take() {
  const state = view(), place = location.hash;
  const {signal} = asking = new AbortController();
  const began = performance.now();
  let wait = EVERY_MS;
  try {
    const {body, told, ageMs} = await SHOWN[state.view]({...state, signal});
    draw(body, place);
    get("main").removeAttribute("aria-busy");
    takenAt = performance.now() - (ageMs ?? 0);
    wait = Math.max(told?.refresh_ms ?? EVERY_MS, EVERY_MS);
    showTrouble("");
  } catch (error) {
    if (error.name === "AbortError")
      return;
    wait = Math.max(refused(error, state), EVERY_MS);
  }
  showPlace(state);
  showAge();
  later(Math.max(wait, SHARE * (performance.now() - began)));
}

function draw(body, place) {
  const next = h("main", null, body);
  if (place !== shown) // another view: nothing of the old one stays
    get("main").replaceChildren(...next.childNodes);
  else
    morph(get("main"), next);
  shown = place;
}

// How long to leave the server alone.
function refused(error, state) {
  if (!(error instanceof Refusal)) {
    showTrouble("The server gives no answer. What is shown is old.");
    return EVERY_MS;
  }
  if (error.status === 401) {
    get("token-form").hidden = false;
    isRefused = true;
  }
  if (error.status === 404 && state.view === "session")
    get("main").replaceChildren(h("h2", null, "Session"), h("p", null,
      "This session has ended. ", h("a", {href: link("sessions")}, "Sessions")));
  showTrouble(error.status === 404 ? "" : error.message);
  return error.retryAfterMs || EVERY_MS;
}

function later(ms) {
  clearTimeout(timer);
  if (!document.hidden && !isRefused)
    timer = setTimeout(take, ms);
}

function now() {
  asking?.abort();
  clearTimeout(timer);
  if (!document.hidden && !isRefused)
    take();
}

// --- the caller

async function begin(token) {
  try {
    const me = await learnRights(token);
    isRefused = false;
    get("token-form").hidden = true;
    get("caller").textContent = me.caller ? `You are ${me.caller}.` : "";
    hasOrder = await views.knowsOrder();
    for (const name of ["waiting", "held"])
      document.querySelector(`nav a[href="#${name}"]`).hidden = !hasOrder;
    now();
  } catch (error) {
    showTrouble(error.status === 401 && token === undefined
      ? "This server wants an API token. The page keeps it until you close or reload it."
      : error.message);
    if (error.status === 401)
      get("token-form").hidden = false;
    else
      setTimeout(() => begin(token), EVERY_MS);
  }
}

// --- what the reader does

get("token-form").addEventListener("submit", event => {
  event.preventDefault();
  begin(get("token").value);
  get("token").value = "";
});

get("main").addEventListener("click", event => event.target.closest("button")?.act?.());

get("main").addEventListener("submit", event => {
  event.preventDefault();
  const {view: name} = event.target.dataset, fields = Object.fromEntries(
    new FormData(event.target));
  location.hash = name === "lock" ? link("lock", fields.name) : link(name, "", fields);
});

get("skip").addEventListener("click", event => {
  event.preventDefault();
  get("main").focus();
});

addEventListener("hashchange", () => {
  takenAt = undefined;
  get("main").setAttribute("aria-busy", "true");
  now();
  get("main").focus();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden)
    asking?.abort();
  showAge();
  now();
});

setInterval(() => {
  if (!document.hidden) {
    tick();
    showAge();
  }
}, 1000);

whenChanged(now);
fetch("/version").then(answer => answer.json())
  .then(({version}) => get("version").textContent = `rlockd ${version}`, () => undefined);
begin();
