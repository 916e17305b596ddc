// Turns what a person drops or picks into files with paths, and finds what is meant by them.

// The folder that files without one are put into.
const LOOSE = "files";
const INDEX = /\.index$/;
const SHARDS = /\.index\.json$/;
const PLUGIN = /\.wasm$/;

// Whether a file is a plugin, by its name.
export const isPlugin = ({ name }) => PLUGIN.test(name);

// Files with their paths, of a drop. Has to be called while the event is handled: entries are gone after it.
export function fromDrop(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return Promise.resolve([...transfer.files].map((file) => ({ file, name: file.name })));
  return walk(entries);
}

// Files with their paths, of an input element.
export const fromInput = (input) =>
  [...input.files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));

async function walk(entries) {
  const found = [];
  const left = [...entries];
  while (left.length > 0) {
    const entry = left.pop();
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail));
      found.push({ file, name: entry.fullPath.replace(/^\//, "") });
    } else {
      const reader = entry.createReader();
      // A call returns some of the entries; none are the end.
      for (;;) {
        const some = await new Promise((done, fail) => reader.readEntries(done, fail));
        if (some.length === 0) break;
        left.push(...some);
      }
    }
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

// What the files are: their names, and the entry that is meant. Of several loose files, an index says it.
export function meant(files) {
  const names = files.map(({ name }) => name);
  if (files.length === 1) return { chosen: files, entry: names[0] };
  const top = names[0].split("/")[0];
  if (names.every((name) => name.startsWith(`${top}/`))) return { chosen: files, entry: top };
  const loose = names.filter((name) => !name.includes("/"));
  const prefix = loose.find((name) => INDEX.test(name))?.replace(INDEX, "");
  const shards = loose.find((name) => SHARDS.test(name));
  if (prefix ?? shards) return { chosen: files, entry: prefix ?? shards };
  return { chosen: files.map(({ file, name }) => ({ file, name: `${LOOSE}/${name}` })), entry: LOOSE };
}
