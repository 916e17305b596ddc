// The worker: holds the module, and answers the page's requests one after the other.
import init, { call } from "./ckpt.js";
import { onProgress, setInput, setOutputs, takeDefect } from "./host.js";
import * as outputs from "./outputs.js";

const ready = init({ module_or_path: new URL("./ckpt_bg.wasm", import.meta.url) });
let files = 0;
let planned = [];
let last = Promise.resolve();

self.addEventListener("message", ({ data }) => {
  last = last.then(() => answer(data));
});

async function answer({ id, request, chosen, room }) {
  onProgress((progress) => postMessage({ id, progress }));
  let reply;
  try {
    await ready;
    if (chosen) request.files = chosen.map(numbered);
    if (request.ask === "convert") reply = await convert(request);
    else reply = JSON.parse(call(JSON.stringify(request)));
    if (request.ask === "plan") planned = reply.ok?.files ?? [];
  } catch (error) {
    reply = { error: ended(error), fatal: true };
  }
  postMessage({ id, reply });
}

function numbered({ file, name }) {
  const number = files++;
  setInput(number, file);
  return { number, name, size: file.size, modified: file.lastModified };
}

async function convert(request) {
  try {
    setOutputs(await outputs.open(planned));
  } catch (error) {
    const facts = [["found", error.message || String(error)]];
    return { error: { message: "the browser cannot make the files of the output", kind: "io", shown: "input/output", facts } };
  }
  const reply = JSON.parse(call(JSON.stringify(request)));
  if (reply.error) await outputs.clear();
  else reply.ok = { ...reply.ok, files: await outputs.close(), onDisk: outputs.isOnDisk() };
  return reply;
}

// What to say when the module ended in the middle of a request.
function ended(error) {
  const said = takeDefect();
  if (error instanceof WebAssembly.RuntimeError || said)
    return {
      message: said ? "ckpt has a defect" : "ckpt ran out of memory",
      kind: said ? "defect" : "limit",
      shown: said ? "defect" : "limit exceeded",
      facts: [
        ["found", said || error.message],
        ["help", said ? "please report it" : "a page has 4 GiB of memory: use the program for this checkpoint"],
      ],
    };
  const facts = [["found", error.message || String(error)]];
  return { message: "ckpt did not load", kind: "io", shown: "input/output", facts: [...facts, ["help", "load the page again"]] };
}
