// Puts the page together beside the module: node assemble.mjs FOLDER, which build.sh calls.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(HERE);
// Of the module, compressed.
const MOST = 6_000_000;

const out = process.argv[2];
const text = (...path) => readFileSync(join(...path), "utf8");
const found = (pattern, source) => pattern.exec(source)?.[1] ?? fail(`nothing matches ${pattern}`);

function fail(message) {
  console.error(message);
  process.exit(1);
}

function files(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? files(join(folder, entry.name)) : [join(folder, entry.name)]))
    .sort();
}

cpSync(join(HERE, "page"), out, { recursive: true });
cpSync(join(ROOT, "crates/html/src/style.css"), join(out, "base.css"));
cpSync(join(ROOT, "examples/data/digits_saved_model"), join(out, "example"), { recursive: true });

// The one inline script that may run: that of the pages which are shown in frames.
const hash = found(/SCRIPT_HASH: &str = "([^"]+)"/, text(ROOT, "crates/html/src/lib.rs"));
const version = found(/\[workspace\.package\]\nversion = "([^"]+)"/, text(ROOT, "Cargo.toml"));
const page = text(out, "index.html").replace("{{script-hash}}", hash).replace("{{version}}", version);
writeFileSync(join(out, "index.html"), page);
writeFileSync(join(out, "licenses.txt"), licenses());

const kept = files(out).filter((file) => !file.endsWith("sw.js"));
const digest = createHash("sha256");
kept.forEach((file) => digest.update(relative(out, file)).update(readFileSync(file)));
const names = ["./", ...kept.map((file) => relative(out, file)).filter((name) => name !== "index.html")];
const worker = text(out, "sw.js")
  .replace("{{version-hash}}", digest.digest("hex").slice(0, 16))
  .replace("{{files}}", JSON.stringify(names));
writeFileSync(join(out, "sw.js"), worker);

const module = readFileSync(join(out, "ckpt_bg.wasm"));
const compressed = gzipSync(module, { level: 9 }).length;
const mib = (bytes) => `${(bytes / (1 << 20)).toFixed(2)} MiB`;
console.log(`${relative(process.cwd(), out) || out}: ${names.length} files; the module has ${mib(module.length)}, compressed ${mib(compressed)}`);
if (compressed > MOST) fail(`the module has more than ${mib(MOST)} compressed`);

// The licenses of everything that the module contains, each text once.
function licenses() {
  const tree = ["tree", "--locked", "--package", "ckpt-web", "--target", "wasm32-unknown-unknown", "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}"];
  const packages = new Map();
  for (const line of execFileSync("cargo", tree, { cwd: HERE, encoding: "utf8" }).split("\n")) {
    const parts = /^(\S+) v(\S+)(?: \(.*\))*\|(.*)$/.exec(line);
    if (parts && !parts[1].startsWith("ckpt")) packages.set(`${parts[1]} ${parts[2]}`, parts[3].replace(" (*)", ""));
  }
  const metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform", "wasm32-unknown-unknown"];
  const all = JSON.parse(execFileSync("cargo", metadata, { cwd: HERE, encoding: "utf8", maxBuffer: 1 << 28 })).packages;
  const texts = new Map();
  for (const { name, version, manifest_path } of all) {
    const label = `${name} ${version}`;
    if (!packages.has(label)) continue;
    const folder = dirname(manifest_path);
    for (const file of readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file)).sort()) {
      const path = join(folder, file);
      if (!statSync(path).isFile()) continue;
      const body = readFileSync(path, "utf8").trim();
      texts.set(body, [...(texts.get(body) ?? []), label]);
    }
  }
  const list = [...packages].sort().map(([label, license]) => `${label}: ${license}`);
  const own = ["LICENSE-MIT", "LICENSE-APACHE"].filter((file) => existsSync(join(ROOT, file))).map((file) => text(ROOT, file).trim());
  const each = [...texts].map(([body, labels]) => `${labels.join(", ")}\n\n${body}`);
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  return ["ckpt, under either of these licenses:", ...own, `The module contains:\n\n${list.join("\n")}`, ...each].join(rule) + "\n";
}
