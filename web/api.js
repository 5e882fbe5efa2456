// Requests to the server. The API token is kept in this variable only: a reload forgets it.
let token = "";
let me = {rights: []};

export class Refusal extends Error {
  constructor(status, problem, retryAfterS) {
    super(problem.detail || problem.title || `HTTP status ${status}`);
    this.status = status;
    this.problem = problem;
    this.retryAfterMs = 1000 * retryAfterS;
  }
}

// The parsed answer; throws a Refusal, or another error where no whole answer came.
export async function ask(method, path, {headers = {}, body, signal} = {}) {
  const sent = {...headers};
  if (token)
    sent.Authorization = `Bearer ${token}`;
  if (body)
    sent["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method, headers: sent, signal, cache: "no-store", credentials: "omit",
    body: body && JSON.stringify(body),
  });
  const told = await answer.json().catch(error => {
    if (answer.ok)
      throw error;
    return {};
  });
  if (!answer.ok)
    throw new Refusal(answer.status, told, Number(answer.headers.get("Retry-After")) || 0);
  return told;
}

// A path of the API; values of `query` that are empty are left out.
export function path(parts, query = {}) {
  const given = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== "");
  const end = new URLSearchParams(given).toString();
  return "/v1/" + parts.map(encodeURIComponent).join("/") + (end && "?" + end);
}

export async function learnRights(newToken) {
  if (newToken !== undefined)
    token = newToken;
  me = {rights: []};
  me = await ask("GET", path(["me"]));
  return me;
}

export function may(verb, name) {
  return me.rights.some(right => right.verb === verb && name.startsWith(right.prefix));
}

// What the names of a listing begin with, unless the reader chooses: "" where the caller may
// list all.
export function readPrefix() {
  return me.rights.filter(({verb}) => verb === "read").map(({prefix}) => prefix)
    .sort((a, b) => a.length - b.length)[0] ?? "";
}

// How long the server asks to be left alone between two pictures.
export function refreshMs() {
  return me.refresh_ms ?? 2000;
}

export function longestWaitMs() {
  return me.max_wait_ms ?? 0;
}

// The longest lease that the caller may ask for.
export function longestMs() {
  return Math.min(366 * 86400000, me.limits?.max_ttl_ms ?? Infinity);
}
