// How the page looks, and who can use it: keyboard, names for screen readers, widths, colors, offline, no uploads.
import assert from "node:assert/strict";
import { join } from "node:path";
import { open } from "./opening.mjs";

const DIGITS = "examples/data/digits_saved_model";
const TABS = ["Contents", "Convert", "Compare", "Run"];

async function example(page) {
  await page.locator("#example").click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
}

// What a screen reader can focus and has no name for.
async function unnamed(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const controls = ["button", "checkbox", "combobox", "textbox", "spinbutton", "tab", "link", "Iframe", "progressbar", "region", "tabpanel"];
  return nodes.filter((node) => !node.ignored && controls.includes(node.role?.value) && !node.name?.value).map((node) => node.role.value);
}

export async function every_control_has_a_name_for_screen_readers({ page: fresh }) {
  const page = await fresh();
  assert.deepEqual(await unnamed(page), []);
  const lost = await page.evaluate(() => [...document.querySelectorAll("label")].filter((label) => !label.control).map((label) => label.textContent));
  assert.deepEqual(lost, [], "a label is of no control");
  await example(page);
  await page.getByText("How it is read").click();
  for (const name of TABS) {
    await page.getByRole("tab", { name }).click();
    if (name === "Convert") await page.getByText("More", { exact: true }).click();
    await page.waitForTimeout(300);
    assert.deepEqual(await unnamed(page), [], name);
  }
}

export async function everything_is_reached_by_the_keyboard({ page: fresh }) {
  const page = await fresh();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  const order = [];
  for (let presses = 0; presses < 6; presses++) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  assert.deepEqual(order.slice(0, 4), ["ckpt", "pick-files", "pick-directory", "example"]);
  await page.locator("#example").focus();
  await page.keyboard.press("Enter");
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await page.getByRole("tab", { name: "Contents" }).focus();
  for (const name of ["Convert", "Compare", "Run", "Contents"]) {
    await page.keyboard.press("ArrowRight");
    const tab = page.getByRole("tab", { name });
    assert.equal(await tab.getAttribute("aria-selected"), "true");
    assert.ok(await tab.evaluate((element) => element === document.activeElement));
  }
  await page.keyboard.press("End");
  assert.equal(await page.getByRole("tab", { name: "Run" }).getAttribute("aria-selected"), "true");
  assert.equal(await page.locator("[role=tab][tabindex='0']").count(), 1);
}

export async function no_width_and_no_color_scheme_breaks_the_page({ page: fresh, pictures, root }) {
  let looked = 0;
  for (const width of [420, 1400]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await fresh({ viewport: { width, height: 900 }, colorScheme });
      const look = async (name) => {
        const [content, visible] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(content <= visible, `${name} is ${content} wide at ${width}`);
        const [text, back] = await page.evaluate(() => {
          const style = getComputedStyle(document.body);
          return [style.color, style.backgroundColor].map((color) => color.match(/\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b));
        });
        assert.ok(colorScheme === "light" ? back > text : text > back, `${name} has the wrong colors in ${colorScheme}`);
        if (pictures) await page.screenshot({ path: join(pictures, `${name}-${width}-${colorScheme}.png`) });
        looked++;
      };
      await look("start");
      await open(page, join(root, DIGITS), { directory: true });
      await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
      await page.waitForTimeout(300);
      await look("contents");
      await page.getByRole("tab", { name: "Convert" }).click();
      await page.locator("#start-convert:not(:disabled)").waitFor();
      await look("convert");
      await page.getByRole("button", { name: "Convert" }).click();
      await page.locator(".saved").waitFor();
      await look("converted");
      await page.getByRole("tab", { name: "Run" }).click();
      await page.getByRole("button", { name: "Run on the CPU" }).click();
      await page.locator("#run-result pre").first().waitFor();
      await look("run");
      await page.getByRole("tab", { name: "Compare" }).click();
      await look("compare");
      await open(page, join(root, "corpus/manifest.toml"));
      await page.getByRole("alert").waitFor();
      await look("error");
      await page.context().close();
    }
  }
  assert.equal(looked, 28);
}

export async function the_page_works_offline_once_it_was_loaded({ page: fresh }) {
  const page = await fresh();
  await page.evaluate(async () => {
    const { active, installing, waiting } = await navigator.serviceWorker.ready;
    const worker = active ?? waiting ?? installing;
    if (worker.state !== "activated") await new Promise((done) => worker.addEventListener("statechange", () => worker.state === "activated" && done()));
  });
  await page.context().setOffline(true);
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await example(page);
}

export async function nothing_is_sent_and_nothing_can_be({ page: fresh, root, address }) {
  const page = await fresh();
  await open(page, join(root, DIGITS), { directory: true });
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await page.getByRole("tab", { name: "Convert" }).click();
  await page.getByRole("button", { name: "Convert" }).click();
  await page.locator(".saved").waitFor();
  assert.ok(page.requests.length >= 10);
  for (const request of page.requests) {
    assert.ok(request.url().startsWith(address) || request.url().startsWith("about:"), request.url());
    assert.equal(request.method(), "GET");
    assert.equal(request.postData(), null);
  }
  assert.deepEqual(page.problems, []);
  const blocked = await page.evaluate(async () => {
    try {
      await fetch("http://127.0.0.1:1/", { mode: "no-cors" });
      return "sent";
    } catch {
      return new Promise((done) => {
        document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), { once: true });
        fetch("http://127.0.0.1:1/", { mode: "no-cors" }).catch(() => {});
      });
    }
  });
  assert.equal(blocked, "connect-src");
}

export async function what_a_file_contains_is_shown_as_text({ page: fresh, scratch }) {
  const { writeFileSync } = await import("node:fs");
  const name = "<img src=x onerror=alert(1)><script>alert(1)</script>";
  const header = Buffer.from(JSON.stringify({ [name]: { dtype: "F32", shape: [1], data_offsets: [0, 4] } }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const path = join(scratch, "hostile.safetensors");
  writeFileSync(path, Buffer.concat([length, header, Buffer.alloc(4)]));
  const page = await fresh();
  let alerted = false;
  page.on("dialog", (dialog) => ((alerted = true), dialog.dismiss()));
  await open(page, path);
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await page.frameLocator("#page").getByText("<img src=x onerror").first().waitFor();
  assert.equal(await page.frameLocator("#page").locator("img").count(), 0);
  await page.getByRole("tab", { name: "Convert" }).click();
  await page.locator("#start-convert:not(:disabled)").waitFor();
  assert.ok(!alerted);
}
