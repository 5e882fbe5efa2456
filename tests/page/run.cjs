// The page in a real browser, as its readers use it. Prints `ok NAME` for each test.
"use strict";
const assert = require("node:assert/strict");
const {readFileSync} = require("node:fs");
const {chromium} = require("playwright-core");

const url = process.env.RLOCKD_URL, picture = process.argv[2];
const patience = Number(process.env.E2E_PATIENCE || 1), SOON_MS = 15000 * patience;
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const tokens = {ops: "ops-secret-aaaaaaaa", reader: "reader-secret-aaaaaaaa"};
const PHONE = {width: 375, height: 667}, DESK = {width: 1280, height: 900};

// --- the API, beside the page

async function api(method, path, headers = {}, body = undefined) {
  const answer = await fetch(url + path, {method, body: body && JSON.stringify(body), headers: {
    Authorization: `Bearer ${tokens.ops}`, "Content-Type": "application/json", ...headers}});
  return {status: answer.status, body: await answer.json()};
}

const lockPath = name => `/v1/locks/${encodeURIComponent(name)}`;

async function hold(name, body, session) {
  const token = crypto.randomUUID();
  const headers = {"Lease-Token": token, ...session && {"Session-Token": session}};
  const {status, body: lease} = await api("PUT", lockPath(name), headers,
    session ? body : {ttl_ms: 600000, ...body});
  assert.equal(status, 201, JSON.stringify(lease));
  return {...lease, token};
}

// Goes on until it is granted or the test is over.
function wait(name, body, session) {
  const headers = {"Lease-Token": crypto.randomUUID(),
    ...session && {"Session-Token": session}};
  return api("PUT", lockPath(name), headers, {wait_ms: 55000, ...body}).catch(() => undefined);
}

async function session(name) {
  const token = crypto.randomUUID();
  const {body} = await api("POST", "/v1/sessions", {"Session-Token": token},
    {name, ttl_ms: 600000});
  return {token, id: body.session_id};
}

// --- the page

const requested = []; // addresses, by all pages
const complaints = []; // what the browser complained of

async function open(browser, hash, token, options = {}) {
  const context = await browser.newContext({viewport: DESK, ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(SOON_MS);
  page.on("request", request => requested.push(request.url()));
  page.on("pageerror", error => complaints.push(error.stack));
  page.on("console", message => {
    // A refused request is in the console of the browser; the page shows it in its own words.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      complaints.push(message.text());
  });
  await page.goto(`${url}/${hash}`);
  await page.locator("#token").fill(token);
  await page.keyboard.press("Enter");
  await page.locator("main > *").first().waitFor();
  return page;
}

async function show(page, hash) {
  await page.evaluate(place => { location.hash = place; }, hash);
  await page.locator("main:not([aria-busy]) > *").first().waitFor();
}

async function mustBeUsable(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  assert.deepEqual(found.violations.map(({id, nodes}) => [id, nodes[0].html]), [], what);
}

const row = (page, text) => page.locator("tr", {hasText: text});
const seen = locator => locator.first().waitFor();

// --- tests

async function listsWhatIsHeldAndWaited(browser) {
  await hold("deploy/prod", {note: "release 2.4"});
  wait("deploy/prod", {note: "release 2.5"});
  const page = await open(browser, "", tokens.reader);
  await seen(page.getByText("You are reader."));
  const waiting = row(page, "deploy/prod");
  await seen(waiting); // after a second of waiting
  await seen(waiting.getByText("release 2.4"));
  await seen(waiting.getByText("release 2.5"));
  await seen(waiting.getByText("ops"));
  await show(page, "#held");
  await seen(row(page, "deploy/prod").getByText("release 2.4"));
  await show(page, "#locks?prefix=deploy/");
  const ends = row(page, "deploy/prod").locator("time").last();
  const before = await ends.textContent();
  await page.waitForFunction(([text]) => !document.querySelector("main").textContent
    .includes(text), [before]); // it counts down
  await page.context().close();
}

async function forceUnlocksTheGrantThatIsShown(browser) {
  await hold("migrate", {note: "the first"});
  wait("migrate", {note: "the next", ttl_ms: 600000});
  const page = await open(browser, "#lock/migrate", tokens.ops);
  await seen(page.getByText("the next"));
  await page.getByRole("button", {name: "Force-unlock…"}).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("it hangs");
  await mustBeUsable(page, "a dialog");
  // Handed on meanwhile: nothing happens.
  const held = (await api("GET", lockPath("migrate"))).body;
  await api("POST", `${lockPath("migrate")}/force-unlock`, {}, {reason: "first"});
  await dialog.getByRole("button", {name: "Force-unlock"}).click();
  await seen(dialog.getByText("the lock is free, or held by another grant"));
  await dialog.getByRole("button", {name: "Cancel"}).click();
  const next = (await api("GET", lockPath("migrate"))).body;
  assert.notEqual(next.fencing_token, held.fencing_token);
  assert.equal(next.holders[0].note, "the next");
  await seen(page.locator("tr", {hasText: String(next.fencing_token)}));
  await page.getByRole("button", {name: "Force-unlock…"}).click();
  await dialog.getByLabel("Reason").fill("it hangs");
  await page.keyboard.press("Enter");
  await seen(page.getByText("Nobody holds the lock."));
  await page.context().close();
}

async function holdsALockForAPerson(browser) {
  const page = await open(browser, "#lock/freeze", tokens.ops);
  await page.getByRole("button", {name: "Hold for a person…"}).click();
  await page.getByLabel("Reason, and for whom").fill("freeze until Monday");
  await page.getByRole("button", {name: "Hold the lock"}).click();
  await seen(page.locator("table").getByText("freeze until Monday"));
  const {body} = await api("GET", lockPath("freeze"));
  assert.ok(body.remaining_ms > 23 * 3600000, `${body.remaining_ms}`);
  await page.context().close();
}

async function endsASession(browser) {
  const {token, id} = await session("build-3/4711");
  await hold("of the session", {}, token);
  const page = await open(browser, "#sessions", tokens.ops);
  await page.getByRole("link", {name: "build-3/4711"}).click();
  await seen(row(page, "of the session"));
  await page.getByRole("button", {name: "End this session…"}).click();
  await page.getByLabel("Reason").fill("its machine burns");
  await page.getByRole("button", {name: "End the session", exact: true}).click();
  await seen(page.getByText("This session has ended."));
  assert.equal((await api("GET", `/v1/sessions/${id}`)).status, 404);
  await page.context().close();
}

async function freesTheSlotOfAMachine(browser) {
  const slot = machine => api("POST", "/fleetlock/v1/pre-reboot",
    {"fleet-lock-protocol": "true"}, {client_params: {id: machine, group: "workers"}});
  assert.equal((await slot("dead-machine")).status, 200);
  assert.equal((await slot("next-machine")).status, 423);
  const group = "#counters?kind=permit-semaphores&name=fleetlock%2Fworkers";
  const reader = await open(browser, group, tokens.reader);
  await seen(reader.getByText("dead-machine"));
  assert.equal(await reader.locator("main table button").count(), 0);
  await reader.context().close();
  const page = await open(browser, group, tokens.ops);
  await page.getByRole("button", {name: "Free the slot…"}).click();
  await page.getByRole("button", {name: "Free the slot", exact: true}).click();
  await seen(page.getByText("dead-machine has no slot any more."));
  assert.equal((await slot("next-machine")).status, 200);
  await seen(page.getByRole("cell", {name: "next-machine"}));
  await mustBeUsable(page, "a group of machines");
  await page.context().close();
}

async function tellsADeadlock(browser) {
  const one = await session("one"), other = await session("other");
  await hold("left", {}, one.token);
  await hold("right", {}, other.token);
  wait("right", {note: "wants the right"}, one.token);
  wait("left", {note: "wants the left"}, other.token);
  const page = await open(browser, "#lock/left", tokens.reader);
  await seen(page.getByRole("group", {name: "Deadlock"}).getByText("wants the right"));
  await mustBeUsable(page, "a deadlock");
  for (const {id} of [one, other])
    await api("POST", `/v1/sessions/${id}/force-end`, {}, {reason: "the test is over"});
  await page.context().close();
}

async function offersOnlyWhatIsAllowed(browser) {
  const {id} = await session("not yours");
  await hold("locked", {});
  const page = await open(browser, "#lock/locked", tokens.reader);
  await seen(page.getByText("Held by"));
  const buttons = await page.locator("main button").allTextContents();
  assert.deepEqual(buttons, ["Copy link", "Copy as rlock command"]);
  await show(page, `#session/${id}`);
  await seen(page.getByRole("heading", {name: "not yours"}));
  assert.equal(await page.locator("main button").count(), 0);
  await page.context().close();
}

const HOSTILE = ["<img src=x onerror=alert(1)>", "\u202Eevil\u2066", "😀 'quoted' \"twice\" `",
  "x".repeat(512), "../..?a=b#c%2F", "{{1+1}}${1}"];

async function hostileTextsStayText(browser) {
  for (const name of HOSTILE)
    await hold(name, {note: [...name].slice(0, 60).join("")});
  const page = await open(browser, "#locks", tokens.ops);
  for (const name of HOSTILE) {
    await show(page, "#locks");
    await page.getByRole("link", {name, exact: true}).click();
    await page.waitForFunction(text => document.querySelector("h2 bdi")?.textContent === text,
      name);
    assert.equal(await page.locator("main img, main script").count(), 0);
  }
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= DESK.width, `${width} pixels wide`);
  for (const name of HOSTILE)
    await api("POST", `${lockPath(name)}/force-unlock`);
  await page.context().close();
}

async function everybodyCanUseEachView(browser) {
  const {id} = await session("long name of a session");
  await api("PUT", "/v1/semaphores/slots?permits=3");
  const places = ["#waiting", "#held", "#locks", "#lock/deploy%2Fprod", "#sessions",
    `#session/${id}`, "#counters?kind=semaphores&name=slots"];
  const page = await open(browser, "#locks", tokens.ops);
  for (const viewport of [DESK, PHONE]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({colorScheme, reducedMotion: "reduce"});
      for (const place of places) {
        await show(page, place);
        await mustBeUsable(page, `${place}, ${colorScheme}, ${viewport.width} pixels`);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= viewport.width, `${place}: ${width} pixels wide`);
      }
    }
  }
  await page.emulateMedia({forcedColors: "active"});
  await show(page, "#lock/deploy%2Fprod");
  await mustBeUsable(page, "forced colours");
  await page.context().close();
}

// Chromium without a window never hides a page: the page is told so.
async function aHiddenPageAsksNothing(browser) {
  const page = await open(browser, "#locks", tokens.reader);
  const hide = hidden => page.evaluate(value => {
    Object.defineProperty(document, "hidden", {value, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  await seen(page.getByText("Paused while this page is hidden."));
  const asked = [];
  page.on("request", request => asked.push(request.url()));
  await page.waitForTimeout(5000); // more than two pictures
  assert.deepEqual(asked, []);
  const picture = page.waitForRequest(/v1\/locks/);
  await hide(false);
  await picture;
  await page.context().close();
}

async function takesThePicture(browser) {
  const page = await open(browser, "#lock/deploy%2Fprod", tokens.ops);
  await seen(page.getByText("release 2.5"));
  await page.getByText(/In the \d+ s/).waitFor();
  await page.waitForTimeout(6000); // a life line of some length
  if (picture)
    await page.screenshot({path: picture, fullPage: true});
  await page.context().close();
}

function nothingComesFromElsewhere() {
  assert.deepEqual(requested.filter(address => !address.startsWith(url + "/")), []);
  assert.deepEqual(requested.filter(address => address.includes("secret")), []);
  assert.deepEqual(complaints, []);
}

async function main() {
  const browser = await chromium.launch({executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"]});
  let failures = 0;
  for (const test of [listsWhatIsHeldAndWaited, forceUnlocksTheGrantThatIsShown,
    holdsALockForAPerson, endsASession, freesTheSlotOfAMachine, tellsADeadlock,
    offersOnlyWhatIsAllowed,
    hostileTextsStayText, everybodyCanUseEachView, aHiddenPageAsksNothing, takesThePicture,
    nothingComesFromElsewhere]) {
    try {
      await test(browser);
      console.log(`ok ${test.name}`);
    } catch (error) {
      failures++;
      console.log(`FAILED ${test.name}: ${error.stack}`);
    }
  }
  await browser.close();
  process.exit(failures > 0 ? 1 : 0);
}

main();
