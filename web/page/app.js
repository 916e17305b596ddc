// The page: opens checkpoints, and shows one of four things about the one that is open.
import { askOpen, current, openFirst } from "./checkpoint.js";
import { fromDrop, fromInput, isPlugin, meant } from "./choosing.js";
import * as comparing from "./comparing.js";
import * as converting from "./converting.js";
import { byId, count, el, meter, options, problem, show as showPage, size } from "./dom.js";
import { Canceled, ask, cancel, plug } from "./engine.js";
import * as running from "./running.js";

// Values of so many bytes are read without asking: a second's work.
const UNASKED = 64 << 20;
// Files that a person can open one of, where a directory is no checkpoint.
const CHOICES = 60;
// The kind of an error about a file that its own framework would refuse.
const CORRUPT = "corrupt";
const TABS = ["contents", "convert", "compare", "run"];
const EXAMPLE = ["saved_model.pb", "fingerprint.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"];

let formats;

async function start() {
  wire();
  converting.prepare();
  if ("serviceWorker" in navigator && isSecureContext) navigator.serviceWorker.register("sw.js").catch(() => {});
  try {
    await listFormats();
  } catch (error) {
    byId("formats-title").after(problem(error));
    return;
  }
  document.documentElement.dataset.ready = "true";
}

async function listFormats() {
  formats = await ask({ ask: "formats" });
  const ends = ({ extensions }) => extensions.map((end) => `.${end}`).join(" ") || "a directory";
  const rows = formats.formats.map((format) =>
    el("tr", {}, el("th", { scope: "row" }, el("code", {}, format.id)), el("td", {}, format.title), el("td", {}, ends(format))),
  );
  byId("formats").tBodies[0].replaceChildren(...rows);
  const read = formats.formats.filter((format) => format.reads);
  const choice = byId("reading-form").elements.format;
  choice.replaceChildren(choice.options[0], ...read.map(({ id, title }) => el("option", { value: id }, `${id}: ${title}`)));
  converting.know(formats);
}

// Adds the formats of plugins; whether all could be added.
async function plugIn(files) {
  byId("plugins").replaceChildren();
  try {
    for (const file of files) {
      const { id, title, version, sha256 } = await plug(file);
      const facts = ` is now a format of this page: ${title}, version ${version}, SHA-256 ${sha256.slice(0, 16)}…`;
      byId("plugins").append(el("p", {}, el("strong", {}, id), facts));
    }
    await listFormats();
    return true;
  } catch (error) {
    show(false);
    byId("plugins").append(problem(error));
    return false;
  }
}

function wire() {
  for (const [button, input] of [["pick-files", "files"], ["pick-directory", "directory"]]) {
    byId(button).addEventListener("click", () => byId(input).click());
    byId(input).addEventListener("change", (event) => {
      const files = fromInput(event.target);
      event.target.value = "";
      if (files.length > 0) choose(files);
    });
  }
  byId("example").addEventListener("click", example);
  byId("another").addEventListener("click", () => (cancel(), show(false), byId("pick-files").focus()));
  byId("reading-form").addEventListener("submit", (event) => (event.preventDefault(), reopen()));
  byId("reading-form").elements.format.addEventListener("change", readingOptions);
  let depth = 0;
  addEventListener("dragenter", () => depth++ === 0 && document.body.classList.add("over"));
  addEventListener("dragleave", () => --depth === 0 && document.body.classList.remove("over"));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    depth = 0;
    document.body.classList.remove("over");
    const files = await fromDrop(event.dataTransfer);
    if (files.length > 0) choose(files);
  });
  const tabs = TABS.map((name) => byId(`tab-${name}`));
  for (const [at, tab] of tabs.entries()) {
    tab.addEventListener("click", () => select(TABS[at]));
    tab.addEventListener("keydown", ({ key }) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[key];
      if (to === undefined) return;
      const next = (to + tabs.length) % tabs.length;
      select(TABS[next]);
      tabs[next].focus();
    });
  }
}

function select(name) {
  for (const tab of TABS) {
    const is = tab === name;
    byId(`tab-${tab}`).setAttribute("aria-selected", is);
    byId(`tab-${tab}`).tabIndex = is ? 0 : -1;
    byId(tab).hidden = !is;
  }
  if (name === "convert") converting.shown();
}

function show(isOpen) {
  byId("start").hidden = isOpen;
  byId("opened").hidden = byId("another").hidden = byId("facts").hidden = !isOpen;
  document.body.classList.toggle("working", isOpen);
  if (!isOpen) document.title = "ckpt";
}

// Opens what a person chose, after the plugins among it were added.
async function choose(all) {
  cancel();
  const files = all.filter((file) => !isPlugin(file));
  if (files.length < all.length && !(await plugIn(all.filter(isPlugin)))) return;
  if (files.length === 0) return show(false);
  const { chosen, entry } = meant(files);
  byId("reading-form").reset();
  byId("reading").open = false;
  await opening({ chosen, entry, format: null, options: [] });
}

// Opens the same with what the form says.
function reopen() {
  const form = byId("reading-form").elements;
  return opening({ ...current(), format: form.format.value || null, options: options(form.options.value) });
}

async function opening(wanted) {
  show(true);
  select("contents");
  const name = wanted.entry;
  document.title = `${name} – ckpt`;
  byId("opened-title").textContent = name;
  byId("facts").replaceChildren(el("strong", {}, name));
  byId("contents-error").replaceChildren();
  showPage("page", null);
  setTabs(false);
  converting.forget();
  comparing.forget();
  running.forget();
  const bar = meter("Opening", 0, () => (cancel(), show(false)));
  byId("contents-state").replaceChildren(bar.row);
  try {
    const found = await openFirst(wanted);
    if (current() !== wanted) return;
    byId("facts").replaceChildren(el("strong", {}, name), el("span", {}, ` · ${found.format} · ${count(found.tensors, "tensor")}, ${size(found.bytes)}`));
    byId("facts").title = `${name}: ${found.title}`;
    setTabs(true);
    readingOptions();
    converting.opened(wanted, formats);
    await contents(found.values <= UNASKED);
  } catch (error) {
    if (current() !== wanted || error instanceof Canceled) return;
    byId("contents-state").replaceChildren();
    byId("contents-error").replaceChildren(problem(error, ...choices(wanted)));
    // What is missing can be said there, unless the file itself is wrong.
    byId("reading").open = error.kind !== CORRUPT;
    readingOptions();
  }
}

// Files of a directory that a person may have meant.
function choices({ chosen, entry }) {
  if (chosen.length < 2) return [];
  const files = chosen.filter(({ name }) => name !== entry).slice(0, CHOICES);
  const button = ({ name }) =>
    el("button", { type: "button", onclick: () => opening({ chosen, entry: name, format: null, options: [] }) }, name.split("/").slice(1).join("/") || name);
  return [el("p", {}, "Open one of its files:"), el("ul", { class: "choices" }, ...files.map((file) => el("li", {}, button(file))))];
}

function setTabs(isOpen) {
  for (const tab of TABS.slice(1)) byId(`tab-${tab}`).disabled = !isOpen;
}

// Shows the page on the checkpoint, with all values read or not.
async function contents(values) {
  const wanted = current();
  const { found } = wanted;
  byId("contents-error").replaceChildren();
  const bar = meter(values ? `Reading values, ${size(found.values)}` : "Drawing", values ? found.values : 0, values ? stop : null);
  byId("contents-state").replaceChildren(bar.row);
  try {
    const { html } = await askOpen({ ask: "contents", values }, { progress: ({ bytes }) => bytes && bar.advance(bytes) });
    if (current() !== wanted) return;
    showPage("page", html);
    byId("contents-state").replaceChildren(...(values ? [`All values are read: ${size(found.values)}.`] : [unread(found)]));
  } catch (error) {
    if (current() !== wanted || error instanceof Canceled) return;
    byId("contents-state").replaceChildren();
    byId("contents-error").replaceChildren(problem(error));
    if (values) await withoutValues();
  }
}

// What can be shown of a checkpoint whose values cannot be read.
async function withoutValues() {
  try {
    showPage("page", (await askOpen({ ask: "contents", values: false })).html);
  } catch {
    // The first error says why.
  }
}

// Ends the reading of values.
async function stop() {
  cancel();
  await contents(false);
}

const unread = (found) =>
  el("span", {}, "The values are not read yet. ", el("button", { type: "button", class: "quiet", onclick: () => contents(true) }, `Read all values, ${size(found.values)}`));

// Lists the options of the format that reads.
function readingOptions() {
  const id = byId("reading-form").elements.format.value || current()?.found?.format;
  const format = formats?.formats.find((format) => format.id === id);
  converting.list(byId("reading-options"), (format?.options ?? []).filter(({ side }) => side !== "write"));
}

async function example() {
  const files = await Promise.all(
    EXAMPLE.map(async (name) => {
      const response = await fetch(`example/${name}`);
      return { file: new File([await response.blob()], name.split("/").at(-1)), name: `digits/${name}` };
    }),
  );
  await choose(files);
}

start();
