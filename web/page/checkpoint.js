// The checkpoint that is open. A worker that is ended forgets it: then it is opened again before the next request.
import { ask, generation } from "./engine.js";

// What was chosen, how it is read, and what is known of it.
let open;
let openedBy;

export const current = () => open;

// Opens what was chosen: `chosen` files, the `entry` among them, `format`, `options`.
export async function openFirst(wanted) {
  open = wanted;
  const { chosen, entry, format, options } = wanted;
  wanted.found = await ask({ ask: "open", side: "first", entry, format, options }, { chosen });
  openedBy = generation();
  return wanted.found;
}

// Asks something about the open checkpoint.
export async function askOpen(request, settings) {
  if (openedBy !== generation()) await openFirst(open);
  return ask(request, settings);
}
