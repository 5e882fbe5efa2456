// The frame of the page: which view is shown, when the server is asked, and how old the picture
// is. One request or chain of requests is under way at a time.
import {learnRights, refreshMs, Refusal} from "./api.js";
import {closeDialog, whenChanged} from "./actions.js";
import {duration, foreign, h, morph, tick} from "./dom.js";
import {lock} from "./lock.js";
import {link, readState} from "./state.js";
import * as views from "./views.js";

// The server is asked for at most a tenth of the time, however slow its answers are.
const SHARE = 10;
const OLD_MS = 10000;

const SHOWN = {...views, lock};
const PARENTS = {lock: "locks", session: "sessions", counter: "counters"};

const GONE = {session: "This session has ended.",
  counter: "There is no semaphore or latch of this name."};

const get = id => document.getElementById(id);
let timer, asking, takenAt, isRefused = false, shown;

// --- the state

function view() {
  const state = readState();
  const isKnown = Object.hasOwn(SHOWN, state.view) &&
    (!PARENTS[state.view] || state.name);
  return isKnown ? state : {view: "waiting", fields: {}};
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
  const isOld = ms > OLD_MS + refreshMs();
  age.textContent = isPaused ? "Paused while this page is hidden."
    : ms === undefined ? "" : `${isOld ? "Old: seen" : "Seen"} ${duration(ms)} ago`;
  age.classList.toggle("old", isOld);
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
  let wait = refreshMs();
  try {
    const {body, ageMs} = await SHOWN[state.view]({...state, signal});
    if (signal.aborted) // by a question whose failure the view bears
      return;
    draw(body, place);
    get("main").removeAttribute("aria-busy");
    takenAt = performance.now() - (ageMs ?? 0);
    showTrouble("");
  } catch (error) {
    if (error.name === "AbortError")
      return;
    wait = Math.max(refused(error, state), refreshMs());
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
  const gone = error.status === 404 && GONE[state.view];
  if (gone || location.hash !== shown) { // nothing of the view before
    draw(gone || state.name ? h("h2", null, gone || foreign(state.name)) : [], location.hash);
    get("main").removeAttribute("aria-busy");
  }
  if (!(error instanceof Refusal)) {
    showTrouble("The server gives no answer. What is shown is old.");
    return 0;
  }
  if (error.status === 401) {
    askForToken();
    isRefused = true;
  }
  showTrouble(error.status === 404 ? "" : error.message);
  return error.retryAfterMs;
}

// Pages that were opened together do not go on asking together.
function later(ms) {
  clearTimeout(timer);
  if (!document.hidden && !isRefused)
    timer = setTimeout(take, ms * (1 + Math.random() / 10));
}

function now() {
  asking?.abort();
  clearTimeout(timer);
  if (!document.hidden && !isRefused)
    take();
}

// --- the caller

function askForToken() {
  get("token-form").hidden = false;
  get("token").focus();
}

async function begin(token) {
  try {
    const me = await learnRights(token);
    isRefused = false;
    get("token-form").hidden = true;
    get("caller").textContent = me.caller ? `You are ${me.caller}.` : "";
    now();
  } catch (error) {
    const isFirst = error.status === 401 && token === undefined;
    showTrouble(isFirst ? "" : error.message);
    if (error.status === 401)
      askForToken();
    else
      setTimeout(() => begin(token), refreshMs());
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
  closeDialog();
  get("main").setAttribute("aria-busy", "true");
  now();
  get("main").focus({preventScroll: true});
  scrollTo(0, 0);
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
