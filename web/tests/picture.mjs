// Takes the guide's picture of the page, docs/src/browser.png: node picture.mjs --page FOLDER
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "./server.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(dirname(HERE));
const { values: given } = parseArgs({ options: { page: { type: "string" } } });
const require = createRequire(join(process.env.CKPT_WEB_TOOLS ?? HERE, "package.json"));
const { chromium } = require("playwright-core");

const server = await serve({ "/": given.page });
const browser = await chromium.launch({ executablePath: process.env.CKPT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const page = await browser.newPage({ viewport: { width: 1100, height: 680 }, colorScheme: "light" });
await page.goto(server.address);
await page.waitForSelector("html[data-ready]");
await page.locator("#example").click();
await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
await page.getByRole("tab", { name: "Convert" }).click();
await page.getByLabel("Format", { exact: true }).selectOption("onnx");
await page.getByLabel("Numbers").selectOption("f16");
await page.locator("#start-convert:not(:disabled)").waitFor();
await page.getByRole("button", { name: "Convert" }).click();
await page.locator(".saved").waitFor();
await page.screenshot({ path: join(ROOT, "docs/src/browser.png") });
await browser.close();
server.close();
