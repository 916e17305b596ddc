// Speaks with the worker. A worker that is busy cannot hear: to cancel is to end it and to begin with another one.
let worker;
let next = 0;
let waiting = new Map();
let ended = 0;
// The files of plugins by the ids of their formats. Each worker is told of them.
const plugins = new Map();

// What the page says where a request was canceled.
export class Canceled extends Error {}

// An error of the module: `message`, `kind` and what that is called, and `facts`.
export class Failure extends Error {
  constructor({ message, kind, shown, facts }) {
    super(message);
    Object.assign(this, { kind, shown, facts });
  }
}

// A number that changes when the worker ends: the next one knows nothing of what this one was told.
export const generation = () => ended;

function start() {
  worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.addEventListener("message", ({ data }) => {
    const { settle, progress } = waiting.get(data.id) ?? {};
    if (data.progress) progress?.(data.progress);
    else if (settle) {
      waiting.delete(data.id);
      settle(data.reply);
    }
  });
  for (const file of plugins.values()) worker.postMessage({ id: next++, request: { ask: "plug" }, chosen: [file] });
  worker.addEventListener("error", (event) => {
    const facts = [["found", event.message || "the worker did not start"], ["help", "load the page again"]];
    end(() => new Failure({ message: "ckpt did not load", kind: "io", shown: "input/output", facts }));
  });
}

function end(reason) {
  worker?.terminate();
  worker = undefined;
  ended++;
  const left = [...waiting.values()];
  waiting = new Map();
  left.forEach(({ fail }) => fail(reason()));
}

// Ends what is being done, and forgets what is open.
export function cancel() {
  end(() => new Canceled("canceled"));
}

// Adds the format of a plugin, which every later request knows; returns what it is.
export async function plug(file) {
  const found = await ask({ ask: "plug" }, { chosen: [file] });
  plugins.set(found.id, file);
  return found;
}

// Asks, and returns the answer. `chosen` are files for the worker; `progress` hears how far it is.
export function ask(request, { chosen, progress } = {}) {
  if (!worker) start();
  const id = next++;
  return new Promise((done, fail) => {
    const settle = (reply) => {
      if (reply.fatal) end(() => new Canceled("canceled"));
      if (reply.error) fail(new Failure(reply.error));
      else done(reply.ok);
    };
    waiting.set(id, { settle, fail, progress });
    worker.postMessage({ id, request, chosen });
  });
}
