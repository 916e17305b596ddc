// The cases of the corpus's manifest: what each is, and what reading it gives.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";

export function cases(root) {
  const text = readFileSync(join(root, "corpus/manifest.toml"), "utf8");
  return text.split("[[case]]\n").slice(1).map((block) => {
    const own = block.split("[case.")[0];
    const value = (key) => {
      const line = new RegExp(`^${key} = (.*)$`, "m").exec(own)?.[1];
      return line === undefined ? undefined : JSON.parse(line);
    };
    const one = { codec: value("codec"), outcome: value("outcome"), path: value("path"), entry: value("entry"), options: value("options") ?? [], told: value("told") ?? true, kind: value("kind") };
    return { ...one, files: files(join(root, "corpus"), one.path) };
  });
}

// The files of a case, as paths below the corpus.
function files(corpus, path) {
  const full = join(corpus, path);
  if (statSync(full).isFile()) return [path];
  return readdirSync(full, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(corpus, join(entry.parentPath ?? entry.path, entry.name)));
}
