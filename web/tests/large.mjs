// A checkpoint of many gigabytes: it opens, and a page holds little of it.
import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { open } from "./opening.mjs";

const GIB = 1 << 30;
const TENSORS = 200;

// A sparse safetensors file of so many bytes.
function sparse(path, bytes) {
  const each = Math.floor(bytes / TENSORS / 4) * 4;
  const tensors = Array.from({ length: TENSORS }, (_, number) => [`layer.${number}.weight`, { dtype: "F32", shape: [each / 4], data_offsets: [number * each, (number + 1) * each] }]);
  const header = Buffer.from(JSON.stringify(Object.fromEntries(tensors)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = openSync(path, "w");
  writeSync(file, Buffer.concat([length, header]));
  ftruncateSync(file, 8 + header.length + TENSORS * each);
  closeSync(file);
}

// The largest resident set, in MiB, of the processes that hold pages.
function resident() {
  const sizes = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((id) => {
    try {
      const is = readFileSync(`/proc/${id}/cmdline`, "utf8").includes("--type=renderer");
      return is ? Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1]) / 1024 : 0;
    } catch {
      return 0;
    }
  });
  return Math.max(...sizes);
}

export async function a_file_of_8_gib_opens_in_bounded_memory({ page: fresh, scratch }) {
  const path = join(scratch, "large.safetensors");
  sparse(path, 8 * GIB);
  const page = await fresh();
  const before = resident();
  const started = performance.now();
  await open(page, path);
  await page.frameLocator("#page").getByText("layer.199.weight").first().waitFor({ state: "attached" });
  const seconds = (performance.now() - started) / 1000;
  assert.match(await page.locator("#facts").textContent(), /200 tensors, 8\.00 GiB/);
  await page.getByRole("button", { name: "Read all values, 8.00 GiB" }).waitFor();
  const after = resident();
  console.log(`8 GiB open in ${seconds.toFixed(2)} s; the page's process had at most ${before.toFixed(0)} MiB before and ${after.toFixed(0)} MiB after`);
  assert.ok(after < before + 128, `${after} MiB`);
  // What takes long can be ended, and the checkpoint stays open.
  await page.getByRole("button", { name: "Read all values, 8.00 GiB" }).click();
  await page.waitForFunction(() => document.querySelector("#contents-state progress")?.value > 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Read all values, 8.00 GiB" }).waitFor();
  await page.getByRole("tab", { name: "Convert" }).click();
  await page.locator("#start-convert:not(:disabled)").waitFor();
}

export async function a_conversion_of_1_gib_streams({ page: fresh, scratch }) {
  const path = join(scratch, "gib.safetensors");
  sparse(path, GIB);
  const page = await fresh();
  await open(page, path);
  await page.getByRole("tab", { name: "Convert" }).click();
  await page.getByLabel("Format", { exact: true }).selectOption("npz");
  await page.locator("#start-convert:not(:disabled)").waitFor();
  const started = performance.now();
  await page.getByRole("button", { name: "Convert" }).click();
  await page.locator(".saved .check", { hasText: "200 tensors read back" }).waitFor({ timeout: 300_000 });
  const peak = resident();
  console.log(`1 GiB converted and read back in ${((performance.now() - started) / 1000).toFixed(1)} s; at most ${peak.toFixed(0)} MiB`);
  assert.ok(peak < 768, `${peak} MiB`);
}
