// The tab “Run”: what the network computes of random inputs.
import { askOpen, current } from "./checkpoint.js";
import { fromInput } from "./choosing.js";
import { byId, el, meter, problem, whole } from "./dom.js";
import { Canceled, cancel } from "./engine.js";

byId("run-form").addEventListener("submit", (event) => {
  event.preventDefault();
  run(event.target.elements);
});

// Nothing is open.
export function forget() {
  byId("run-form").reset();
  clear();
}

function clear() {
  byId("run-state").replaceChildren();
  byId("run-result").replaceChildren();
}

async function run({ inputs, divide, batch, seed, length }) {
  clear();
  const first = current();
  const chosen = fromInput(inputs);
  const number = ({ value }) => (value === "" ? null : Number(value));
  // A divisor is of files.
  const divisor = chosen.length > 0 ? number(divide) : null;
  const request = { ask: "run", divide: divisor, batch: Number(batch.value), seed: Number(seed.value), length: number(length) };
  byId("run-state").replaceChildren(meter("Running", 0, cancel).row);
  try {
    const found = await askOpen(request, { chosen });
    if (current() === first) byId("run-result").replaceChildren(...shown(found));
  } catch (error) {
    if (current() === first) byId("run-result").replaceChildren(error instanceof Canceled ? el("p", {}, "Canceled.") : problem(error));
  }
  if (current() === first) byId("run-state").replaceChildren();
}

function shown({ inputs, outputs, notes }) {
  const given = inputs.map(({ name, shape, origin }) => el("p", {}, "Input ", el("code", {}, name), ` [${shape.join(", ")}]: ${origin}`));
  const made = outputs.flatMap(({ name, shape, numbers, count, largest }) => {
    const width = shape.at(-1) ?? 1;
    const rows = [];
    const widest = Math.max(...numbers.map((number) => number.length));
    const cells = numbers.map((number) => number.padStart(widest));
    for (let at = 0; at < cells.length; at += width) rows.push(cells.slice(at, at + width).join("  "));
    if (count > numbers.length) rows.push(`… ${whole(count - numbers.length)} more`);
    const best = width > 1 && largest.length <= 64 && el("p", {}, `Largest of each row: ${largest.join(", ")}`);
    return [el("h2", {}, "Output ", el("code", {}, name), ` [${shape.join(", ")}]`), el("pre", { tabindex: "0", "aria-label": `Numbers of output ${name}` }, rows.join("\n")), best].filter(Boolean);
  });
  return [...given, ...made, ...notes.map((note) => el("p", { class: "note" }, `Note: ${note}`))];
}
