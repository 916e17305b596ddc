// Tests the page in Chromium: node browser.mjs --page FOLDER --ckpt PROGRAM [--pictures FOLDER] [--only NAME]
// CKPT_WEB_TOOLS is a folder where `npm ci` installed what package.json names, if this is not; CKPT_CHROMIUM is the browser.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "./server.mjs";
import * as opening from "./opening.mjs";
import * as converting from "./converting.mjs";
import * as looking from "./looking.mjs";
import * as large from "./large.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(dirname(HERE));
const { values: given } = parseArgs({ options: { page: { type: "string" }, ckpt: { type: "string" }, pictures: { type: "string" }, only: { type: "string" } } });
const require = createRequire(join(process.env.CKPT_WEB_TOOLS ?? HERE, "package.json"));
const { chromium } = require("playwright-core");

const scratch = mkdtempSync(join(tmpdir(), "ckpt-web-"));
if (given.pictures) mkdirSync(given.pictures, { recursive: true });
const server = await serve({ "/": given.page, "/repository/": ROOT });
const browser = await chromium.launch({ executablePath: process.env.CKPT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// A window on the page, ready, with the requests and errors that it makes.
async function page(settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...settings });
  const page = await context.newPage();
  page.requests = [];
  page.problems = [];
  context.on("request", (request) => page.requests.push(request));
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  // Dialogs of the system cannot be driven: the page then gives files to the downloads.
  await page.addInitScript(() => (delete window.showSaveFilePicker, delete window.showDirectoryPicker));
  await page.goto(server.address);
  await page.waitForSelector("html[data-ready]");
  return page;
}

const ckpt = (...args) => execFileSync(given.ckpt, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
const world = { page, ckpt, scratch, root: ROOT, address: server.address, pictures: given.pictures, browser };

let failed = 0;
let count = 0;
for (const [name, test] of Object.entries({ ...opening, ...converting, ...looking, ...large })) {
  // What tests share has names of one word.
  if (!name.includes("_") || (given.only && !name.includes(given.only))) continue;
  const started = performance.now();
  let outcome = "ok";
  try {
    await test(world);
  } catch (error) {
    outcome = `FAILED\n${error.stack}`;
    failed++;
  }
  count++;
  console.log(`${name} (${((performance.now() - started) / 1000).toFixed(1)} s): ${outcome}`);
  await Promise.all(browser.contexts().map((context) => context.close()));
}
await browser.close();
server.close();
rmSync(scratch, { recursive: true });
console.log(failed ? `${failed} of ${count} tests FAILED` : `${count} tests passed`);
process.exit(failed || !count ? 1 : 0);
