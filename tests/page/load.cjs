// Open pages, for load.py: `load.cjs URL PLACE...`. Each line of standard input, `show` or
// `hide` for all pages or `count`, is answered by the requests, bytes and refused requests
// since the line before, in JSON. Ends with standard input.
"use strict";
const {createInterface} = require("node:readline");
const {chromium} = require("playwright-core");

const [url, ...places] = process.argv.slice(2);
let requests = 0, bytes = 0, refused = 0;

async function open(browser, place) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(120000);
  await page.goto(`${url}/${place}`);
  await page.locator("main tbody tr").first().waitFor();
  page.on("requestfinished", async request => {
    requests++;
    refused += (await request.response())?.status() === 200 ? 0 : 1;
    const sizes = await request.sizes();
    bytes += sizes.requestHeadersSize + sizes.responseHeadersSize + sizes.responseBodySize;
  });
  return page;
}

// Chromium without a window never hides a page: the page is told so.
function hide(page, hidden) {
  return page.evaluate(value => {
    Object.defineProperty(document, "hidden", {value, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

async function main() {
  const browser = await chromium.launch({executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"]});
  const pages = [];
  for (const place of places)
    pages.push(await open(browser, place));
  console.log(JSON.stringify({pages: pages.length}));
  for await (const line of createInterface({input: process.stdin})) {
    if (line !== "count")
      await Promise.all(pages.map(page => hide(page, line === "hide")));
    console.log(JSON.stringify({requests, bytes, refused}));
    requests = bytes = refused = 0;
  }
  await browser.close();
}

main();
