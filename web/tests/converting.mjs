// Converting: the same bytes as the program's, losses before, verification, cancellation.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { open } from "./opening.mjs";

const DIGITS = "examples/data/digits_saved_model";
// What is converted: the source, the target, its name, fields of the form, losses to accept, and the same for the program.
const PAIRS = [
  { from: DIGITS, to: "safetensors", name: "digits.safetensors" },
  { from: DIGITS, to: "onnx", name: "digits.onnx" },
  { from: DIGITS, to: "npz", name: "half.npz", dtype: "f16" },
  { from: "corpus/onnx/accept", to: "gguf", name: "model.gguf", pick: /\.onnx$/ },
  { from: "corpus/gguf/accept", to: "safetensors", name: "blocks.safetensors", pick: /\.gguf$/ },
  { from: "corpus/keras/accept", to: "safetensors", name: "complex.safetensors", pick: /^complex\.h5$/, accept: true },
  { from: "corpus/gguf/accept", to: "torch", name: "model.pt", pick: /\.gguf$/ },
  { from: DIGITS, to: "tf2", name: "again", several: true },
  { from: DIGITS, to: "orbax", name: "tree", several: true },
];

// The files below a folder, or the file itself, by their paths.
function bytesOf(path) {
  if (statSync(path).isFile()) return { "": readFileSync(path) };
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(files.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).map((file) => [relative(path, file), readFileSync(file)]));
}

// Waits until the page has planned what the form says.
async function planned(page) {
  await page.locator("#plan[aria-busy=false]").getByRole("heading").first().waitFor();
}

async function fill(page, { to, name, dtype }) {
  await page.getByRole("tab", { name: "Convert" }).click();
  await page.getByLabel("Format", { exact: true }).selectOption(to);
  await page.getByLabel("Name", { exact: true }).fill(name);
  if (dtype) await page.getByLabel("Numbers").selectOption(dtype);
  await page.waitForTimeout(600);
  await planned(page);
}

// Accepts whatever would stop the conversion, and returns the kinds.
async function accept(page) {
  const kinds = [];
  for (;;) {
    const box = page.locator(".loss.changes", { has: page.locator("input:not(:checked)") }).first();
    if ((await box.count()) === 0) return kinds;
    kinds.push((await box.locator(".head").textContent()).split(" (")[0]);
    await box.getByRole("checkbox", { name: "accept" }).click();
    await page.waitForTimeout(100);
    await planned(page);
  }
}

// Converts, saves, and returns where the result is.
async function saved(page, pair, folder) {
  await page.getByRole("button", { name: "Convert" }).click();
  await page.locator(".saved").or(page.locator("#result .problem")).waitFor();
  assert.equal(await page.locator("#result .problem").count(), 0, await page.locator("#result").textContent());
  const download = page.waitForEvent("download");
  await page.locator(".saved").getByRole("button", { name: pair.several ? "Save as one .tar" : `Save ${pair.name}` }).click();
  const path = join(folder, pair.several ? "result.tar" : pair.name);
  await (await download).saveAs(path);
  if (!pair.several) return path;
  const unpacked = join(folder, "unpacked");
  mkdirSync(unpacked);
  execFileSync("tar", ["-xf", path, "-C", unpacked]);
  return unpacked;
}

export async function conversions_have_the_bytes_of_the_program({ page: fresh, ckpt, root, scratch }) {
  let compared = 0;
  for (const [number, pair] of PAIRS.entries()) {
    const page = await fresh();
    const folder = join(scratch, `pair-${number}`);
    const expected = join(folder, "program");
    mkdirSync(expected, { recursive: true });
    const source = pair.pick ? join(root, pair.from, readdirSync(join(root, pair.from)).filter((name) => pair.pick.test(name)).sort()[0]) : join(root, pair.from);
    await open(page, source, { directory: statSync(source).isDirectory() });
    await fill(page, pair);
    const kinds = pair.accept ? await accept(page) : [];
    const found = bytesOf(await saved(page, pair, folder));
    const dtype = pair.dtype ? ["--dtype", pair.dtype] : [];
    ckpt("convert", source, join(expected, pair.name), "--to", pair.to, "--max-memory", "128m", "-j1", ...dtype, ...kinds.flatMap((kind) => ["--allow", kind]));
    const wanted = pair.several ? bytesOf(expected) : bytesOf(join(expected, pair.name));
    assert.deepEqual(Object.keys(found).sort(), Object.keys(wanted).sort(), pair.to);
    for (const [name, bytes] of Object.entries(wanted)) assert.ok(bytes.equals(found[name]), `${pair.to} ${name}: ${bytes.length} and ${found[name].length} bytes`);
    await page.locator(".saved .check", { hasText: "read back" }).waitFor();
    compared++;
    await page.context().close();
  }
  assert.equal(compared, PAIRS.length);
}

export async function both_networks_are_run_after_a_conversion({ page: fresh }) {
  const page = await fresh();
  await page.locator("#example").click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await fill(page, { to: "onnx", name: "digits.onnx" });
  await page.getByRole("button", { name: "Convert" }).click();
  await page.locator(".saved", { hasText: "both networks agree on random inputs (rule “bits”" }).waitFor();
}

export async function a_loss_that_changes_results_stops_until_it_is_accepted({ page: fresh, root }) {
  const page = await fresh();
  await open(page, join(root, "corpus/keras/accept/complex.h5"));
  await fill(page, { to: "safetensors", name: "complex.safetensors" });
  await page.locator("#plan .bad", { hasText: "would change what the model computes" }).waitFor();
  assert.ok(await page.locator("#start-convert").isDisabled());
  assert.deepEqual(await accept(page), ["weight-dropped"]);
  assert.ok(await page.locator("#start-convert").isEnabled());
  await page.locator(".loss.changes").getByRole("checkbox", { name: "accept" }).click();
  await page.locator("#start-convert:disabled").waitFor();
}

export async function a_file_is_streamed_to_where_the_person_says({ page: fresh, root, scratch, ckpt }) {
  const page = await fresh();
  // A handle of the private file system stands for the one that the dialog would give.
  await page.evaluate(() => {
    window.showSaveFilePicker = async ({ suggestedName }) => {
      const root = await navigator.storage.getDirectory();
      return root.getFileHandle(suggestedName, { create: true });
    };
  });
  await page.locator("#example").click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await fill(page, { to: "safetensors", name: "digits.safetensors" });
  await page.getByRole("button", { name: "Convert" }).click();
  await page.getByRole("button", { name: "Save digits.safetensors" }).click();
  await page.locator(".saved .good", { hasText: "Saved as digits.safetensors." }).waitFor();
  const bytes = await page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    const file = await (await root.getFileHandle("digits.safetensors")).getFile();
    return [...new Uint8Array(await file.arrayBuffer())];
  });
  const expected = join(scratch, "streamed.safetensors");
  ckpt("convert", join(root, DIGITS), expected, "-j1", "--max-memory", "128m");
  assert.ok(readFileSync(expected).equals(Buffer.from(bytes)));
}

export async function without_room_on_the_disk_the_result_is_in_memory({ page: fresh, root, scratch, ckpt }) {
  const page = await fresh({ serviceWorkers: "block" });
  await page.route("**/outputs.js", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace("navigator.storage.getDirectory()", "Promise.reject(new Error())");
    await route.fulfill({ response, body });
  });
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  const source = join(root, DIGITS);
  await open(page, source, { directory: true });
  const pair = { to: "safetensors", name: "memory.safetensors" };
  await fill(page, pair);
  const path = await saved(page, pair, scratch);
  await page.locator(".saved", { hasText: "in memory until you save it" }).waitFor();
  const expected = join(scratch, "expected.safetensors");
  ckpt("convert", source, expected, "-j1", "--max-memory", "128m");
  assert.ok(readFileSync(path).equals(readFileSync(expected)));
}

export async function the_output_of_a_page_that_is_gone_is_removed({ browser, page: fresh }) {
  void browser;
  const page = await fresh();
  const convert = async () => {
    await page.locator("#example").click();
    await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
    await fill(page, { to: "safetensors", name: "a.safetensors" });
    await page.getByRole("button", { name: "Convert" }).click();
    await page.locator(".saved").waitFor();
  };
  const kept = () =>
    page.evaluate(async () => {
      const names = [];
      for await (const name of (await navigator.storage.getDirectory()).keys()) names.push(name);
      return names;
    });
  await convert();
  const [first, ...others] = await kept();
  assert.deepEqual(others, []);
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await convert();
  const after = await kept();
  assert.equal(after.length, 1);
  assert.notEqual(after[0], first);
}

export async function a_checkpoint_is_compared_with_another_one_by_running_both({ page: fresh, root, scratch, ckpt }) {
  const page = await fresh();
  const [same, other] = ["same.onnx", "other.safetensors"].map((name) => join(scratch, name));
  ckpt("convert", join(root, DIGITS), same, "-j1");
  ckpt("convert", join(root, "examples/data/digits"), other, "-j1", "--dtype", "f16");
  await open(page, join(root, DIGITS), { directory: true });
  await page.getByRole("tab", { name: "Compare" }).click();
  await page.locator("#other-files").setInputFiles(same);
  await page.locator("#compare-state .good").waitFor();
  await page.frameLocator("#report").getByText("bits").first().waitFor();
  await page.locator("#other-files").setInputFiles(join(root, "corpus/manifest.toml"));
  await page.locator("#compare-error .problem").waitFor();
}

export async function the_network_is_run_on_random_inputs_as_the_program_runs_it({ page: fresh, root, ckpt }) {
  const page = await fresh();
  await open(page, join(root, DIGITS), { directory: true });
  await page.getByRole("tab", { name: "Run" }).click();
  await page.getByLabel("Random examples").fill("2");
  await page.getByLabel("Seed").fill("7");
  await page.getByRole("button", { name: "Run on the CPU" }).click();
  const shown = (await page.locator("#run-result pre").first().textContent()).trim().split(/\s+/).map(Number);
  const expected = JSON.parse(ckpt("run", join(root, DIGITS), "--batch", "2", "--seed", "7", "--format", "json")).outputs[0];
  assert.deepEqual(shown.map(Math.fround), expected.values);
}

export async function the_network_is_run_on_arrays_of_a_file({ page: fresh, root, scratch, ckpt }) {
  // Two rows of 64 bytes, as NumPy saves them.
  const header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 64), }".padEnd(117) + "\n";
  const numbers = Buffer.from(Array.from({ length: 128 }, (_, at) => (at * 37) % 256));
  const path = join(scratch, "x.npy");
  writeFileSync(path, Buffer.concat([Buffer.from([0x93]), Buffer.from("NUMPY\x01\x00"), Buffer.from([118, 0]), Buffer.from(header), numbers]));
  const page = await fresh();
  await open(page, join(root, DIGITS), { directory: true });
  await page.getByRole("tab", { name: "Run" }).click();
  await page.getByLabel("Inputs").setInputFiles(path);
  await page.getByLabel("Divide them by").fill("16");
  await page.getByRole("button", { name: "Run on the CPU" }).click();
  const shown = (await page.locator("#run-result pre").first().textContent()).trim().split(/\s+/).map(Number);
  const expected = JSON.parse(ckpt("run", join(root, DIGITS), "--input", path, "--divide", "16", "--format", "json")).outputs[0];
  assert.deepEqual(shown.map(Math.fround), expected.values);
  assert.match(await page.locator("#run-result p").first().textContent(), /^Input input \[2, 64\]: x\.npy/);
}
