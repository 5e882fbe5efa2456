// The page in a real browser, as its readers use it. Prints `ok NAME` for each test.
"use strict";
const assert = require("node:assert/strict");
const {readFileSync} = require("node:fs");
const {chromium} = require("playwright-core");

const url = process.env.RLOCKD_URL, picture = process.argv[2];
const patience = Number(process.env.E2E_PATIENCE || 1), SOON_MS = 15000 * patience;
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const tokens = Object.fromEntries(["ops", "reader", "part"].map(
  caller => [caller, `${caller}-secret-aaaaaaaa`]));
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

const isWaitedFor = (name, count) => until(async () =>
  (await api("GET", lockPath(name))).body.waiter_count === count);

async function until(isSo) {
  for (const end = Date.now() + SOON_MS; !await isSo();)
    assert.ok(Date.now() < end, `not soon: ${isSo}`);
}

// Goes on until it is granted or the test is over.
function wait(name, body, session) {
  const headers = {"Lease-Token": crypto.randomUUID(),
    ...session && {"Session-Token": session}};
  return api("PUT", lockPath(name), headers, {wait_ms: 600000, ...body}).catch(() => undefined);
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
  await hold("deploy/test", {});
  wait("deploy/prod", {note: "release 2.5"});
  await isWaitedFor("deploy/prod", 1);
  // The order is that of coming, not of giving up.
  wait("deploy/prod", {note: "release 2.6", wait_ms: 50000});
  await isWaitedFor("deploy/prod", 2);
  wait("deploy/test", {note: "the shorter wait"});
  const page = await open(browser, "", tokens.reader);
  await seen(page.getByText("You are reader."));
  const waiting = row(page, "deploy/prod");
  await seen(waiting); // after a second of waiting
  await seen(waiting.getByText("release 2.4"));
  await seen(waiting.getByText("release 2.5"));
  await seen(waiting.getByText("ops"));
  await seen(row(page, "the shorter wait"));
  assert.deepEqual(await page.locator("tbody th").allTextContents(),
    ["deploy/prod", "deploy/test"]);
  assert.deepEqual(await waiting.locator("li .note").allTextContents(),
    ["release 2.5", "release 2.6"]);
  await show(page, "#held");
  await seen(row(page, "deploy/prod").getByText("release 2.4"));
  await show(page, "#locks?prefix=deploy/");
  const ends = row(page, "deploy/prod").locator("time").last();
  const before = await ends.textContent();
  await page.waitForFunction(([text]) => !document.querySelector("main").textContent
    .includes(text), [before]); // it counts down
  await page.context().close();
}

// Redisson's own lock, which tests/page/run.py keeps held.
async function showsWhatAJavaClientHolds(browser) {
  wait("java/report", {note: "waits for Java"});
  const page = await open(browser, "#lock/java%2Freport", tokens.ops);
  await seen(row(page, /Java client [0-9a-f-]{36}:\d+/));
  await seen(row(page, "waits for Java"));
  assert.equal(await page.getByRole("button", {name: "Force-unlock…"}).count(), 0);
  await show(page, "#held");
  await seen(row(page, "java/report").getByText(/^at least \d/));
  await page.context().close();
}

// No Date reaches its end: lock.lock(Integer.MAX_VALUE, TimeUnit.DAYS), of tests/page/run.py.
async function showsALeaseLongerThanTheCalendar(browser) {
  const page = await open(browser, "#locks?prefix=java%2F", tokens.reader);
  await seen(row(page, "java/forever").getByText(/^214748364\d d/));
  await page.getByRole("link", {name: "java/forever"}).click();
  await seen(row(page, /Java client/).getByText(/^214748364\d d/));
  assert.ok(await page.locator("#trouble").isHidden());
  await page.context().close();
}

async function listsInPagesOf100(browser) {
  const names = Array.from({length: 130}, (_, i) => `many/${i}`);
  await Promise.all(names.map(name => hold(name, {})));
  const page = await open(browser, "#locks?prefix=many%2F", tokens.reader);
  await seen(row(page, "many/"));
  const first = await page.locator("tbody th").allTextContents();
  assert.ok(first.length > 50 && first.length <= 100, `${first.length}`); // as SCAN has them
  await page.getByRole("link", {name: "Next page"}).click();
  await seen(page.getByRole("link", {name: "First page"}));
  const others = await page.locator("tbody th").allTextContents();
  assert.deepEqual(new Set([...first, ...others]), new Set(names));
  assert.match(page.url(), /cursor=/);
  await Promise.all(names.map(name => api("POST", `${lockPath(name)}/force-unlock`)));
  await page.context().close();
}

async function listsSemaphoresAndLatches(browser) {
  await api("PUT", "/v1/semaphores/slots?permits=3");
  await api("PUT", "/v1/latches/ready?count=2");
  await api("PUT", "/v1/permit-semaphores/gpus?permits=4");
  await api("PUT", "/v1/permit-semaphores/gpus/permit?ttl_ms=600000",
    {"Lease-Token": crypto.randomUUID()});
  const page = await open(browser, "#counters", tokens.reader);
  for (const text of [/slots\s+3\s+0\s+0/, /ready\s+2\s+0\s+0/, /gpus\s+3\s+1\s+0/])
    await until(async () => (await page.locator("tbody tr").allInnerTexts())
      .some(found => text.test(found)));
  await page.getByRole("link", {name: "gpus"}).click();
  await seen(row(page, "ops").getByText(/^9 min/));
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

// An answer that is cut off says nothing of what was done.
async function tellsNothingByHalfAnAnswer(browser) {
  await hold("half", {note: "one"});
  const page = await open(browser, "#lock/half", tokens.ops);
  await page.route(/force-unlock$/, route => route.fulfill({status: 200, body: '{"unlocked'}));
  await page.getByRole("button", {name: "Force-unlock…"}).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("it hangs");
  await dialog.getByRole("button", {name: "Force-unlock"}).click();
  await seen(dialog.locator("#dialog-trouble"));
  await page.context().close();
}

// The next holder appears in the page that has freed the lock.
async function showsTheNextHolder(browser) {
  await hold("relay", {note: "one"});
  wait("relay", {note: "two", ttl_ms: 600000});
  await isWaitedFor("relay", 1);
  const page = await open(browser, "#lock/relay", tokens.ops);
  const holders = page.locator("table", {hasText: "Held by"});
  await seen(holders.getByText("one"));
  await page.getByRole("button", {name: "Force-unlock…"}).click();
  await page.getByLabel("Reason").fill("on to the next one");
  await page.getByRole("dialog").getByRole("button", {name: "Force-unlock"}).click();
  await seen(holders.getByText("two"));
  await seen(page.getByText("Nobody waits for the lock."));
  await seen(page.getByText(/handed on 1 time\./));
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

// As others hold it: fair and plain locks of one name refuse each other.
async function holdsALockInTurn(browser) {
  const {token} = await hold("window", {kind: "fair"});
  const page = await open(browser, "#lock/window", tokens.ops);
  const begin = async reason => {
    await page.getByRole("button", {name: "Hold for a person…"}).click();
    await page.getByLabel("Reason, and for whom").fill(reason);
    await page.getByRole("button", {name: "Wait, then hold the lock"}).click();
    await isWaitedFor("window", 1);
  };
  await begin("given up");
  await page.getByRole("button", {name: "Cancel"}).click();
  await isWaitedFor("window", 0);
  await begin("maintenance");
  await api("DELETE", lockPath("window"), {"Lease-Token": token});
  await seen(page.locator("table").getByText("maintenance"));
  await page.context().close();
}

// The lock is held, and nobody knows: who gives up leaves nothing.
async function givesUpAfterALostAnswer(browser) {
  const page = await open(browser, "#lock/lost", tokens.ops);
  await page.route(/locks\/lost$/, async route => {
    if (route.request().method() !== "PUT")
      return route.continue();
    await route.fetch();
    await route.abort();
  });
  await page.getByRole("button", {name: "Hold for a person…"}).click();
  await page.getByLabel("Reason, and for whom").fill("nobody will know");
  await page.getByLabel("Others acquire it as").selectOption("a read/write lock");
  await page.getByRole("button", {name: "Hold the lock"}).click();
  await until(async () => (await api("GET", lockPath("lost"))).body.kind === "write");
  await page.getByRole("button", {name: "Cancel"}).click();
  await until(async () => !(await api("GET", lockPath("lost"))).body.locked);
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

const whyNotFree = page => page.locator("section", {hasText: "Why it is not free"})
  .locator("li").allTextContents();

async function tellsWhyALockIsNotFree(browser) {
  const sessions = [];
  for (const name of ["first", "middle", "last"])
    sessions.push(await session(name));
  for (const [i, {token}] of sessions.entries())
    await hold(`chain/${i}`, {}, token);
  for (const i of [0, 1])
    wait(`chain/${i + 1}`, {}, sessions[i].token);
  const page = await open(browser, "#lock/chain%2F0", tokens.reader);
  await seen(page.getByText("the known end of the chain"));
  const why = await whyNotFree(page);
  assert.equal(why.length, 3);
  assert.match(why[0], /^chain\/0 is held by ops · first, which waits for chain\/1 for \d+ s$/);
  assert.match(why[2], /^chain\/2 is held by ops · last, which waits for no lock that the server/);
  for (const {id} of sessions)
    await api("POST", `/v1/sessions/${id}/force-end`, {}, {reason: "the test is over"});
  await page.context().close();
}

async function tellsAWaitForSeveralLocks(browser) {
  const {token, id} = await session("of several");
  await hold("several/held", {}, token);
  await hold("several/busy", {});
  api("PUT", "/v1/multi-locks", {"Lease-Token": crypto.randomUUID(), "Session-Token": token},
    {locks: ["several/busy", "several/free"], wait_ms: 600000}).catch(() => undefined);
  const page = await open(browser, "#lock/several%2Fheld", tokens.reader);
  await seen(page.getByText("waits for several/busy and several/free at once for"));
  assert.equal((await whyNotFree(page)).length, 1);
  await page.getByRole("link", {name: "of several"}).first().click();
  const waits = page.locator("table", {hasText: "Waits for"});
  await seen(waits.getByRole("link", {name: "several/busy"}));
  await seen(waits.getByRole("link", {name: "several/free"}));
  await api("POST", `/v1/sessions/${id}/force-end`, {}, {reason: "the test is over"});
  await page.context().close();
}

// The server does not tell of each wait: not of locks that the caller may not look at, say.
async function claimsNothingOfWaitsThatItDoesNotKnow(browser) {
  const {token, id} = await session("discreet");
  await hold("deploy/discreet", {}, token);
  await hold("hidden", {});
  wait("hidden", {}, token);
  await until(async () => (await api("GET", `/v1/sessions/${id}`)).body.waits.length === 1);
  const page = await open(browser, "#lock/deploy%2Fdiscreet", tokens.part);
  await until(async () => (await whyNotFree(page)).length === 1);
  assert.deepEqual(await whyNotFree(page), ["deploy/discreet is held by ops · discreet, " +
    "which waits for no lock that the server tells of"]);
  await page.getByRole("link", {name: "discreet", exact: true}).first().click();
  await seen(page.getByText("It waits for no lock that the server tells of."));
  await api("POST", `/v1/sessions/${id}/force-end`, {}, {reason: "the test is over"});
  await page.context().close();
}

// Once more is asked, the picture of the request before is drawn.
async function nextPicture(page, address) {
  for (let i = 0; i < 2; i++)
    await page.waitForRequest(address);
}

// The second picture takes over what it can of the first, by keys: what is alike is not the same.
async function keepsRowsThatAreAlike(browser) {
  const {token, id} = await session("twice");
  for (const kind of ["write", "read"])
    await hold("twice/sides", {kind, owner: "both"}, token);
  await hold("twice/busy", {});
  for (const owner of ["one", "other"])
    wait("twice/busy", {owner}, token);
  const one = {"Lease-Token": crypto.randomUUID(), "Session-Token": token};
  for (const name of ["twice/a", "twice/b"])
    assert.equal((await api("PUT", lockPath(name), one, {})).status, 201);
  const page = await open(browser, "#lock/twice%2Fsides", tokens.reader);
  const rowsOf = caption => page.locator("table", {hasText: caption}).locator("tbody tr");
  await seen(rowsOf("Held by"));
  await nextPicture(page, /locks\/twice/);
  assert.equal(await rowsOf("Held by").count(), 2);
  await show(page, `#session/${id}`);
  await until(async () => await rowsOf("Waits for").count() > 0);
  await nextPicture(page, /sessions\//);
  assert.equal(await rowsOf("Waits for").count(), 2);
  assert.deepEqual(await rowsOf("Renewal").locator("th").allTextContents(),
    ["twice/a", "twice/b", "twice/sides", "twice/sides"]);
  await api("POST", `/v1/sessions/${id}/force-end`, {}, {reason: "the test is over"});
  await page.context().close();
}

// Whatever a server tells: two of one key stay two.
async function losesNoNodeToItsKey(browser) {
  const page = await open(browser, "#locks", tokens.reader);
  assert.deepEqual(await page.evaluate(async () => {
    const {h, morph} = await import("/page/dom.js");
    const list = words => h("ol", null, words.map(word => h("li", {"data-key": "one"}, word)));
    const shown = list(["a", "b"]);
    morph(shown, list(["c", "d", "e"]));
    return [...shown.children].map(item => item.textContent);
  }), ["c", "d", "e"]);
  await page.context().close();
}

async function freesTheSlotOfAMachine(browser) {
  const slot = machine => api("POST", "/fleetlock/v1/pre-reboot",
    {"fleet-lock-protocol": "true"}, {client_params: {id: machine, group: "workers"}});
  assert.equal((await slot("dead-machine")).status, 200);
  assert.equal((await slot("next-machine")).status, 423);
  const group = "#counter/fleetlock%2Fworkers";
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
  await show(page, "#waiting");
  await seen(row(page, "left").getByText("deadlock", {exact: true}));
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

// A caller whose right to read ends somewhere begins there.
async function beginsWithWhatMayBeRead(browser) {
  const page = await open(browser, "#held", tokens.part);
  await seen(row(page, "deploy/prod"));
  assert.equal(await page.getByLabel("Names that begin with").inputValue(), "deploy/");
  await show(page, "#lock/migrate");
  await seen(page.getByRole("alert"));
  assert.equal(await page.locator("main tr").count(), 0); // nothing of the view before
  await page.context().close();
}

async function forgetsTheToken(browser) {
  const page = await open(browser, "#locks", tokens.reader);
  const kept = await page.evaluate(() => [Object.keys(localStorage),
    Object.keys(sessionStorage), document.cookie, document.querySelector("#token").value]);
  assert.deepEqual(kept, [[], [], "", ""]);
  await page.reload();
  await seen(page.getByLabel("API token"));
  assert.equal(await page.locator("main > *").count(), 0);
  await page.context().close();
}

async function servesTheKeyboardAndTheClipboard(browser) {
  const page = await open(browser, "#locks?prefix=deploy%2F", tokens.reader,
    {permissions: ["clipboard-read", "clipboard-write"]});
  await page.getByRole("link", {name: "deploy/prod"}).focus();
  for (let i = 0; i < 2; i++) // pictures come and go; the focus stays
    await page.waitForResponse(/v1\/locks/);
  await page.keyboard.press("Enter");
  await page.getByRole("button", {name: "Copy as rlock command"}).press("Enter");
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await until(async () => await copied() === "rlock show deploy/prod");
  await page.getByRole("button", {name: "Copy link"}).press("Enter");
  await until(async () => await copied() === `${url}/#lock/deploy%2Fprod`);
  await page.context().close();
}

async function marksAnOldPicture(browser) {
  const page = await open(browser, "#locks", tokens.reader);
  await seen(page.getByText(/^Seen \d+ s ago$/));
  await page.context().setOffline(true);
  await seen(page.getByText("The server gives no answer. What is shown is old."));
  await seen(page.getByText(/^Old: seen \d+ s ago$/));
  await page.context().setOffline(false);
  await seen(page.getByText(/^Seen \d+ s ago$/));
  await page.context().close();
}

async function asksAsOftenAsTheServerSays(browser) {
  const context = await browser.newContext({viewport: DESK});
  await context.route("**/v1/me", async route => {
    const response = await route.fetch();
    await route.fulfill({response, json: {...await response.json(), refresh_ms: 3600000}});
  });
  const page = await open({newContext: () => context}, "#locks", tokens.reader);
  page.on("request", request => assert.fail(request.url()));
  await page.waitForTimeout(5000); // more than two pictures
  await context.close();
}

async function noTextBecomesMarkup(browser) {
  const page = await open(browser, "#locks", tokens.reader);
  assert.equal(await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>";
    } catch (error) {
      return error.name;
    }
    return "it became markup";
  }), "TypeError");
  await page.context().close();
}

const HOSTILE = ["<img src=x onerror=alert(1)>", "\u202Eevil\u2066", "😀 'quoted' \"twice\" `",
  "x".repeat(512), "../..?a=b#c%2F", "{{1+1}}${1}"];

async function hostileTextsStayText(browser) {
  for (const name of HOSTILE)
    await hold(name, {note: [...name].slice(0, 60).join("")});
  const page = await open(browser, "#locks", tokens.ops);
  for (const name of HOSTILE) {
    await show(page, `#locks?prefix=${encodeURIComponent(name)}`);
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
  const places = ["#waiting", "#held", "#locks", "#lock/deploy%2Fprod", "#sessions",
    `#session/${id}`, "#counters", "#counter/gpus"];
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
  const web = await session("web-1/4711"), batch = await session("batch-7/12");
  await hold("report/october", {note: "all of October"}, batch.token);
  const first = await hold("orders/42", {note: "import"});
  const page = await open(browser, "#lock/orders%2F42", tokens.ops);
  wait("orders/42", {note: "invoice run"}, web.token);
  await isWaitedFor("orders/42", 1);
  for (const note of ["refund 17", "refund 18"])
    wait("orders/42", {note});
  await page.waitForTimeout(4000); // a life line of some length
  await api("DELETE", lockPath("orders/42"), {"Lease-Token": first.token});
  wait("report/october", {}, web.token);
  await seen(page.getByText("the known end of the chain"));
  await seen(page.getByText(/handed on 1 time\./));
  await page.waitForTimeout(4000);
  if (picture)
    await page.screenshot({path: picture, fullPage: true});
  await page.context().close();
}

function nothingComesFromElsewhere() {
  assert.deepEqual(requested.filter(address => !address.startsWith(url + "/")), []);
  assert.deepEqual(requested.filter(address => address.includes("secret")), []);
  assert.deepEqual(complaints, []);
}

// Tests mostly wait, and have locks of their own: those of a row run one after the other, beside
// the other rows.
const FIRST = [listsWhatIsHeldAndWaited];
const ROWS = [
  [showsWhatAJavaClientHolds, showsALeaseLongerThanTheCalendar, listsInPagesOf100,
    forceUnlocksTheGrantThatIsShown, tellsNothingByHalfAnAnswer, showsTheNextHolder,
    holdsALockForAPerson, holdsALockInTurn, givesUpAfterALostAnswer, hostileTextsStayText],
  [endsASession, tellsWhyALockIsNotFree, tellsAWaitForSeveralLocks,
    claimsNothingOfWaitsThatItDoesNotKnow, keepsRowsThatAreAlike, losesNoNodeToItsKey,
    tellsADeadlock, offersOnlyWhatIsAllowed, beginsWithWhatMayBeRead, forgetsTheToken,
    servesTheKeyboardAndTheClipboard, marksAnOldPicture, asksAsOftenAsTheServerSays,
    aHiddenPageAsksNothing],
  [listsSemaphoresAndLatches, freesTheSlotOfAMachine, everybodyCanUseEachView]];
const LAST = [takesThePicture, nothingComesFromElsewhere, noTextBecomesMarkup];

// How many have failed.
async function run(browser, tests) {
  let failures = 0;
  for (const test of tests) {
    const began = Date.now();
    try {
      await test(browser);
      console.log(`ok ${test.name} ${((Date.now() - began) / 1000).toFixed(1)} s`);
    } catch (error) {
      failures++;
      console.log(`FAILED ${test.name}: ${error.stack}`);
    }
  }
  return failures;
}

async function main() {
  const browser = await chromium.launch({executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"]});
  const failures = [await run(browser, FIRST),
    ...await Promise.all(ROWS.map(row => run(browser, row))), await run(browser, LAST)];
  await browser.close();
  process.exit(failures.some(Boolean) ? 1 : 0);
}

main();
