// The tab “Compare”: whether another checkpoint computes the same.
import { askOpen, current } from "./checkpoint.js";
import { fromInput, meant } from "./choosing.js";
import { byId, el, meter, problem, show } from "./dom.js";
import { Canceled, ask, cancel } from "./engine.js";

for (const [button, input] of [["compare-files", "other-files"], ["compare-directory", "other-directory"]]) {
  byId(button).addEventListener("click", () => byId(input).click());
  byId(input).addEventListener("change", (event) => {
    const files = fromInput(event.target);
    event.target.value = "";
    if (files.length > 0) compare(files);
  });
}

// Nothing is open.
export function forget() {
  byId("compare-state").replaceChildren();
  byId("compare-error").replaceChildren();
  show("report", null);
}

async function compare(files) {
  forget();
  const first = current();
  const { chosen, entry } = meant(files);
  const bar = meter(`Comparing with ${entry}`, 0, cancel);
  byId("compare-state").replaceChildren(bar.row);
  try {
    // In this order: a worker that was ended has forgotten both.
    await askOpen({ ask: "open", side: "second", entry, format: null, options: [] }, { chosen });
    const { html, passes, verdict, ran } = await ask({ ask: "compare" });
    if (current() !== first) return;
    byId("compare-state").replaceChildren(el("span", { class: passes ? "good" : "bad" }, verdict), ran ? "" : " (tensors only; nothing was run)");
    show("report", html);
  } catch (error) {
    if (current() !== first) return;
    byId("compare-state").replaceChildren(error instanceof Canceled ? "Canceled." : "");
    if (!(error instanceof Canceled)) byId("compare-error").replaceChildren(problem(error));
  }
}
