// The tab “Convert”: a form, what the conversion would lose, and the result.
import { askOpen, current } from "./checkpoint.js";
import { byId, count, el, listed, meter, options, problem, size } from "./dom.js";
import { Canceled, cancel } from "./engine.js";
import { archive, canPickDirectory, canPickFile, download, saveAll, saveFile } from "./saving.js";

// A model as a directory, which a format has beside its files.
const DIRECTORY = "/";
// What is offered first: formats that hold tensors of any shape and name.
const USUAL = ["safetensors", "npz"];
// Files of a result that have a row of their own.
const ROWS = 100;

let formats;
// The kinds of losses that the person accepts.
let accepted = new Set();
// Whether the name is one that the person typed.
let isNamed = false;
// The number of the last plan that was asked for.
let asked = 0;
let planned;
let isStale = true;

const form = () => byId("convert-form").elements;

// Learns which formats, dtypes and mappings there are.
export function know(known) {
  formats = known;
  const list = (select, names) => select.replaceChildren(select.options[0], ...names.map((name) => el("option", { value: name }, name)));
  list(form().dtype, known.dtypes);
  list(form().mapping, known.mappings);
}

export function prepare() {
  byId("convert-form").addEventListener("submit", (event) => event.preventDefault());
  let timer;
  byId("convert-form").addEventListener("input", ({ target }) => {
    if (target.name === "name") isNamed = target.value !== "";
    if (target.name === "to") targetChanged();
    // What was accepted was accepted of another conversion.
    if (!["name", "verify"].includes(target.name)) accepted.clear();
    clearTimeout(timer);
    timer = setTimeout(plan, target.tagName === "INPUT" && target.type !== "checkbox" ? 400 : 0);
  });
  byId("start-convert").addEventListener("click", convert);
}

// Lists options that a format knows.
export function list(element, known) {
  const one = ({ name, help, values }) => el("li", {}, el("code", {}, `${name}=${values ? values.join("|") : "…"}`), ` ${help}`);
  element.replaceChildren(...known.map(one));
}

// Nothing is open.
export function forget() {
  for (const id of ["plan", "converting", "result"]) byId(id).replaceChildren();
  byId("start-convert").disabled = true;
  planned = undefined;
  isStale = true;
  asked++;
}

// A checkpoint was opened: offers what it can become.
export function opened({ found }) {
  byId("convert-form").reset();
  accepted = new Set();
  isNamed = false;
  const can = formats.formats.filter((format) => found.targets.includes(format.id));
  const option = (format) => el("option", { value: format.id }, `${format.id}: ${format.title}`);
  const directories = can
    .filter((format) => format.directory && found.directory)
    .map((format) => el("option", { value: format.id + DIRECTORY }, `${format.id}, a directory with config and tokenizer`));
  form().to.replaceChildren(...directories, ...can.map(option));
  const first = USUAL.find((id) => id !== found.format && can.some((format) => format.id === id));
  if (first) form().to.value = first;
  byId("quantized-box").hidden = !found.quantized;
  targetChanged();
}

// The tab is shown: plans, if nothing is planned yet.
export function shown() {
  if (isStale && current()?.found) plan();
}

function target() {
  const value = form().to.value;
  const id = value.replace(DIRECTORY, "");
  return { format: formats.formats.find((format) => format.id === id), directory: value.endsWith(DIRECTORY) };
}

function targetChanged() {
  const { format, directory } = target();
  if (!isNamed) form().name.value = named(format, directory);
  list(byId("writing-options"), (format?.options ?? []).filter(({ side }) => side !== "read"));
}

// The name that the output gets if the person gives none.
function named(format, directory) {
  const { entry, found } = current();
  const name = entry.split("/").filter(Boolean).at(-1) ?? "model";
  const own = formats.formats.find(({ id }) => id === found.format);
  const ending = own.extensions.map((extension) => `.${extension}`).find((extension) => name.endsWith(extension));
  const stem = (ending ? name.slice(0, -ending.length) : name.replace(/\.[^.]*$/, "")) || "model";
  const taken = format.id === found.format ? `${stem}-converted` : stem;
  if (directory) return `${taken}/`;
  return format.extensions.length > 0 ? `${taken}.${format.extensions[0]}` : taken;
}

async function plan() {
  const mine = ++asked;
  const { format, directory } = target();
  planned = undefined;
  isStale = false;
  byId("start-convert").disabled = true;
  byId("start-convert").classList.add("main");
  byId("result").replaceChildren();
  if (!format) {
    byId("plan").replaceChildren(el("p", {}, "No other format can hold this checkpoint."));
    return;
  }
  byId("plan").setAttribute("aria-busy", "true");
  const fields = form();
  const request = {
    ask: "plan",
    to: format.id,
    name: fields.name.value || named(format, directory),
    directory,
    dtype: fields.dtype.value || null,
    mapping: fields.mapping.value || null,
    inverse: fields.inverse.checked && fields.mapping.value !== "",
    "keep-quantized": fields.quantized.checked,
    include: listed(fields.include.value),
    exclude: listed(fields.exclude.value),
    options: options(fields.options.value),
    allow: [...accepted],
    verify: fields.verify.checked,
  };
  try {
    const found = await askOpen(request);
    if (mine !== asked) return;
    planned = found;
    byId("plan").replaceChildren(...described(found));
    byId("start-convert").disabled = found.refused != null;
  } catch (error) {
    if (mine !== asked || error instanceof Canceled) return;
    byId("plan").replaceChildren(el("h2", {}, "This cannot be converted so"), problem(error));
  }
  byId("plan").setAttribute("aria-busy", "false");
}

// What a plan says: what would be written, and what would be lost.
function described(found) {
  const files = found.files.length === 1 ? "one file" : `${found.files.length} files`;
  const parts = [el("h2", {}, "What the conversion loses")];
  const changing = found.losses.filter(({ changes }) => changes);
  if (found.losses.length === 0) parts.push(el("p", { class: "good" }, "Nothing."));
  else if (found.refused) parts.push(el("p", { class: "bad" }, "It would change what the model computes. Accept that, or choose something else."));
  else if (changing.length === 0) parts.push(el("p", { class: "good" }, "Nothing that changes what the model computes."));
  parts.push(...changing.map(loss));
  const harmless = found.losses.filter(({ changes }) => !changes);
  if (harmless.length > 0) {
    const all = el("details", {}, el("summary", {}, `${count(harmless.length, "kind")} of loss that ${harmless.length === 1 ? "changes" : "change"} no results`), ...harmless.map(loss));
    parts.push(all);
  }
  if (found.refused && changing.length === 0) parts.push(problem(found.refused));
  if (found.repairs.length > 0) parts.push(el("h3", {}, "Repaired while reading"), el("ul", {}, ...found.repairs.map(({ subject, detail }) => el("li", {}, `${subject}: ${detail}`))));
  parts.push(...found.notes.map((note) => el("p", { class: "note" }, `Note: ${note}`)));
  const excluded = found.excluded > 0 ? ` ${count(found.excluded, "tensor")} left out.` : "";
  parts.push(el("p", {}, `Writes ${count(found.tensors, "tensor")}, ${size(found.bytes)}, in ${files}.${excluded}`));
  return parts;
}

function loss({ kind, changes, refused, count: number, reasons }) {
  const accept = el("input", {
    type: "checkbox",
    onchange: ({ target }) => (target.checked ? accepted.add(kind) : accepted.delete(kind), plan()),
  });
  accept.checked = accepted.has(kind);
  const each = reasons.map(({ reason, subjects, count }) => {
    const more = count > subjects.length ? ` and ${count - subjects.length} more` : "";
    return el("li", {}, reason, " ", el("span", {}, subjects.join(", ") + more));
  });
  const needs = refused || accepted.has(kind);
  return el(
    "div",
    { class: changes ? "loss changes" : "loss" },
    el("p", { class: "head" }, `${kind} (${number})`, changes && el("span", { class: "badge fail" }, "changes results"), needs && el("label", { class: "box" }, accept, " accept")),
    el("ul", {}, ...each),
  );
}

const PHASES = { write: "Converting", finish: "Finishing", "read-back": "Reading back", compute: "Running both networks" };

async function convert() {
  const { bytes } = planned;
  const mine = ++asked;
  byId("start-convert").disabled = true;
  byId("result").replaceChildren();
  const started = performance.now();
  let phase = "write";
  const bar = meter(`Converting, ${size(bytes)}`, bytes, () => cancel());
  const progress = (told) => {
    if (told.phase in PHASES) {
      phase = told.phase;
      bar.restart(PHASES[phase], phase === "write" || phase === "read-back" ? bytes : 0);
    } else if (told.bytes && told.what === (phase === "write" ? "converted" : "read")) bar.advance(told.bytes);
  };
  byId("converting").replaceChildren(bar.row);
  try {
    const done = await askOpen({ ask: "convert" }, { progress });
    if (mine === asked) byId("result").replaceChildren(result(done, (performance.now() - started) / 1000));
  } catch (error) {
    if (mine === asked) byId("result").replaceChildren(error instanceof Canceled ? el("p", {}, "Canceled. Nothing was written.") : problem(error));
  }
  byId("converting").replaceChildren();
  // The plan is used up.
  if (mine === asked) {
    const kept = [...byId("result").childNodes];
    await plan();
    byId("result").replaceChildren(...kept);
    // Saving comes next.
    byId("start-convert").classList.remove("main");
  }
}

function result({ tensors, bytes, files, onDisk, verification, rounding }, seconds) {
  const said = el("p", { class: "said" });
  const tell = async (action) => {
    try {
      const name = await action();
      said.textContent = name ? `Saved as ${name}.` : "The browser saves it with its downloads.";
      said.className = "good";
    } catch (error) {
      if (error.name === "AbortError") return;
      said.textContent = `The browser cannot save it: ${error.message || error}`;
      said.className = "bad";
    }
  };
  const save = ({ file, name }) => tell(() => (canPickFile() ? saveFile(file, name) : download(file, name)));
  const button = (label, action, kind) => el("button", { type: "button", class: kind, onclick: action }, label);
  const lines = [el("h2", {}, "Converted"), el("p", {}, `${count(tensors, "tensor")}, ${size(bytes)}, in ${seconds.toFixed(seconds < 10 ? 1 : 0)} s.`)];
  lines.push(...verified(verification));
  if (rounding) lines.push(el("p", { class: "note" }, `Largest rounding error: ${rounding.error.toPrecision(2)} in ${rounding.tensor}.`));
  if (files.length === 1) lines.push(el("p", { class: "buttons" }, button(`Save ${files[0].name.split("/").at(-1)}`, () => save(files[0]), "main")));
  else {
    const all = canPickDirectory() ? button("Save all into a directory", () => tell(() => saveAll(files)), "main") : null;
    const tar = button("Save as one .tar", () => save({ file: archive(files), name: `${stem(files)}.tar` }), all ? "" : "main");
    const rows = files.slice(0, ROWS).map((file) =>
      el("tr", {}, el("td", { class: "name" }, file.name), el("td", { class: "number" }, size(file.file.size)), el("td", { class: "number" }, button("Save", () => save(file)))),
    );
    lines.push(el("p", { class: "buttons" }, all, tar), el("table", {}, el("tbody", {}, ...rows)));
    if (files.length > ROWS) lines.push(el("p", { class: "note" }, `and ${files.length - ROWS} more files`));
  }
  lines.push(said);
  if (!onDisk) lines.push(el("p", { class: "note" }, "This browser window has no room on the disk for pages: the result is in memory until you save it."));
  return el("div", { class: "saved" }, ...lines);
}

const stem = (files) => (files[0].name.includes("/") ? files[0].name.split("/")[0] : files[0].name.replace(/\.[^.]*$/, ""));

function verified(found) {
  if (!found) return [];
  const { tensors, equal, changed, computed } = found;
  const read = `Verified: ${count(tensors, "tensor")} read back`;
  let back = `${read}, equal to the source bit for bit.`;
  if (changed > 0) back = equal > 0 ? `${read}; ${equal} equal the source bit for bit, and ${changed} its converted values.` : `${read}, equal to the source’s converted values.`;
  const lines = [el("p", { class: "check" }, back)];
  if (computed?.agree) lines.push(el("p", { class: "check" }, `Verified: both networks agree on random inputs (rule “${computed.rule}”: ${computed.reason}).`));
  else if (computed) lines.push(el("p", { class: "note" }, `The networks were not run: ${computed.reason}.`));
  return lines;
}
