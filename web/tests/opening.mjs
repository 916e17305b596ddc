// Opening checkpoints: what the page says of them is what the program says.
import assert from "node:assert/strict";
import { join } from "node:path";
import { cases } from "./corpus.mjs";

// Opens files by the file picker, and waits for what the page says.
export async function open(page, paths, { directory = false } = {}) {
  await page.locator(directory ? "#directory" : "#files").setInputFiles(paths);
  await page.waitForFunction(() => document.querySelector("#contents-error .problem") || document.querySelector("#page").srcdoc);
}

export const facts = (page) => page.locator("#facts").textContent();

// A case as the page's module opens it, without the page around it.
function opened(page, one) {
  return page.evaluate(async ({ files, path, entry, options, format }) => {
    const { ask } = await import("./engine.js");
    const fetched = async (name) => {
      const blob = await (await fetch(`repository/corpus/${name}`)).blob();
      return { file: new File([blob], name.split("/").at(-1), { lastModified: 0 }), name };
    };
    const isFile = files.length === 1 && files[0] === path;
    const chosen = await Promise.all(files.map(fetched));
    const full = isFile ? path : entry ? `${path}/${entry}` : path;
    try {
      const found = await ask({ ask: "open", side: "first", entry: full, format, options }, { chosen });
      return { tensors: found.tensors, values: (await ask({ ask: "contents", values: true })).html.length };
    } catch (error) {
      return { kind: error.kind, message: error.message };
    }
  }, { ...one, format: one.told && one.outcome === "accept" ? null : one.codec });
}

export async function every_case_of_the_corpus_is_read_or_refused_as_the_program_does({ page: fresh, root }) {
  const page = await fresh();
  const all = cases(root);
  const codecs = new Set();
  const wrong = [];
  for (const one of all) {
    const found = await opened(page, one);
    codecs.add(one.codec);
    if (one.outcome === "accept" ? found.tensors === undefined : found.kind !== one.kind)
      wrong.push(`${one.path} (${one.outcome} ${one.kind ?? ""}): ${JSON.stringify(found)}`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(all.length > 700 && codecs.size >= 12, `${all.length} cases of ${codecs.size} codecs`);
}

export async function a_sample_of_each_format_is_shown_with_its_tensors({ page: fresh, ckpt, root }) {
  const page = await fresh();
  const seen = new Set();
  for (const one of cases(root)) {
    if (one.outcome !== "accept" || seen.has(one.codec) || !one.told || one.options.length > 0 || one.entry) continue;
    seen.add(one.codec);
    const path = join(root, "corpus", one.path);
    await open(page, path, { directory: one.files[0] !== one.path });
    const inspected = JSON.parse(ckpt("inspect", path, "--format", "json"));
    assert.match(await facts(page), new RegExp(` · ${inspected.format} · ${inspected.tensors.length} tensors?, `), one.path);
    const shown = page.frameLocator("#page").locator("h1");
    await shown.waitFor();
    await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
    const first = inspected.tensors[0]?.name;
    if (first) await page.frameLocator("#page").getByText(first, { exact: false }).first().waitFor({ state: "attached" });
    await page.locator("#another").click();
  }
  assert.ok(seen.size >= 12, `only ${[...seen]}`);
  assert.deepEqual(page.problems, []);
}

export async function a_broken_file_shows_the_error_of_the_program({ page: fresh, ckpt, root }) {
  const page = await fresh();
  const broken = cases(root).find((one) => one.codec === "safetensors" && one.outcome === "reject" && one.kind === "corrupt" && one.told);
  const path = join(root, "corpus", broken.path);
  await open(page, path);
  let said;
  try {
    ckpt("inspect", path, "--format", "json");
    assert.fail("the program reads it");
  } catch (error) {
    said = JSON.parse(error.stderr).error;
  }
  const alert = page.getByRole("alert");
  assert.equal((await alert.locator("strong").textContent()).toLowerCase(), said.message.toLowerCase());
  const text = await alert.textContent();
  assert.ok(text.includes("corrupt input"), text);
  for (const label of ["found", "expected", "help"]) if (said[label]) assert.ok(text.includes(said[label]), `${label}: ${text}`);
  assert.ok(await page.locator("#tab-convert").isDisabled());
}

export async function a_directory_that_is_no_checkpoint_offers_its_files({ page: fresh, root }) {
  const page = await fresh();
  await open(page, join(root, "examples/data"), { directory: true });
  await page.getByRole("alert").waitFor();
  await page.getByRole("button", { name: "digits_saved_model/saved_model.pb" }).waitFor();
}

export async function loose_files_of_one_checkpoint_open_together({ page: fresh, root }) {
  const page = await fresh();
  const variables = join(root, "examples/data/digits_saved_model/variables");
  await open(page, ["variables.index", "variables.data-00000-of-00001"].map((name) => join(variables, name)));
  assert.match(await facts(page), /^variables · tf2 · \d+ tensors, /);
}

export async function a_file_can_be_dropped({ page: fresh, root }) {
  const page = await fresh();
  const data = await page.evaluateHandle(async () => {
    const blob = await (await fetch("repository/examples/data/digits_saved_model/saved_model.pb")).blob();
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], "nothing.bin"));
    return transfer;
  });
  await page.dispatchEvent("body", "dragenter", { dataTransfer: data });
  assert.ok(await page.evaluate(() => document.body.classList.contains("over")));
  await page.dispatchEvent("body", "drop", { dataTransfer: data });
  await page.waitForFunction(() => document.querySelector("#contents-error .problem") || document.querySelector("#page").srcdoc);
  assert.equal(await page.locator("#facts strong").textContent(), "nothing.bin");
  assert.ok(!(await page.evaluate(() => document.body.classList.contains("over"))));
}

export async function another_format_and_options_open_the_same_files_again({ page: fresh }) {
  const page = await fresh();
  await page.locator("#example").click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await page.getByText("How it is read").click();
  await page.getByLabel("Format of the source").selectOption("gguf");
  await page.getByRole("button", { name: "Open again" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Format of the source").selectOption("");
  await page.getByRole("button", { name: "Open again" }).click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
}

export async function options_for_reading_say_what_the_files_do_not({ page: fresh, root }) {
  const page = await fresh();
  await open(page, join(root, "examples/data/digits"), { directory: true });
  await page.getByText("How it is read").click();
  await page.getByLabel("Options for reading").fill("activations=relu,softmax, lenient=false");
  await page.getByRole("button", { name: "Open again" }).click();
  await page.locator("#contents-state", { hasText: "All values are read" }).waitFor();
  await page.frameLocator("#page").getByText("Softmax").first().waitFor({ state: "attached" });
}

export async function a_plugin_adds_its_format_to_every_later_worker({ page: fresh, root }) {
  const page = await fresh();
  await page.locator("#files").setInputFiles(join(root, "python/tests/toy.wasm"));
  await page.waitForSelector("#plugins p, #plugins .problem");
  assert.match(await page.locator("#plugins").textContent(), /^toy is now a format of this page: .*version 0\.1\.0/);
  assert.match(await page.locator("#formats").textContent(), /toy/);
  const tensors = () =>
    page.evaluate(async () => {
      const { ask } = await import("./engine.js");
      const bytes = new Uint8Array([84, 79, 89, 49, 0, 0, 128, 63, 0, 0, 0, 64]);
      const chosen = [{ file: new File([bytes], "m.toy", { lastModified: 0 }), name: "m.toy" }];
      return (await ask({ ask: "open", side: "first", entry: "m.toy", format: "toy", options: [] }, { chosen })).tensors;
    });
  assert.equal(await tensors(), 1);
  await page.evaluate(async () => (await import("./engine.js")).cancel());
  assert.equal(await tensors(), 1);
}

export async function what_is_no_plugin_is_refused_by_name({ page: fresh, root }) {
  const page = await fresh();
  await page.locator("#files").setInputFiles([{ name: "broken.wasm", mimeType: "", buffer: Buffer.from("no module") }]);
  await page.waitForSelector("#plugins .problem");
  assert.match(await page.locator("#plugins").textContent(), /no plugin.*broken\.wasm/s);
}
