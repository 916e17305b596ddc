// Saves files: to a place that the person picks, where the browser can write there; else as downloads.

export const canPickFile = () => "showSaveFilePicker" in window;
export const canPickDirectory = () => "showDirectoryPicker" in window;

// Writes one file where the person says. Nothing is there before it is complete.
export async function saveFile(file, name) {
  const handle = await window.showSaveFilePicker({ suggestedName: last(name) });
  await file.stream().pipeTo(await handle.createWritable());
  return handle.name;
}

// Writes all files into a directory that the person picks.
export async function saveAll(files) {
  const root = await window.showDirectoryPicker({ mode: "readwrite" });
  for (const { name, file } of files) {
    const parts = name.split("/").filter(Boolean);
    let directory = root;
    for (const part of parts.slice(0, -1)) directory = await directory.getDirectoryHandle(part, { create: true });
    const handle = await directory.getFileHandle(parts.at(-1), { create: true });
    await file.stream().pipeTo(await handle.createWritable());
  }
  return root.name;
}

// Gives the file to the browser's downloads, which read it from the disk.
export function download(file, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = last(name);
  link.click();
  // The browser has begun by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const last = (name) => name.split("/").filter(Boolean).at(-1) ?? name;

// All files as one archive: a list of parts, which is read only when it is saved.
export function archive(files) {
  const parts = [];
  for (const { name, file } of files) {
    parts.push(...header(name, file.size), file, new Uint8Array(padding(file.size)));
  }
  parts.push(new Uint8Array(1024));
  return new Blob(parts, { type: "application/x-tar" });
}

const padding = (size) => (512 - (size % 512)) % 512;

// The headers of a file in the format `pax`, in which names and sizes have any length.
function header(name, size) {
  const records = new TextEncoder().encode(record("path", name) + record("size", String(size)));
  const body = new Uint8Array(records.length + padding(records.length));
  body.set(records);
  return [block("pax", "x", records.length), body, block("file", "0", Math.min(size, 0o77777777777))];
}

// `LENGTH KEY=VALUE`, whose length counts itself, in bytes.
function record(key, value) {
  const rest = ` ${key}=${value}\n`;
  const bytes = new TextEncoder().encode(rest).length;
  let length = bytes + 1;
  while (String(length).length + bytes !== length) length = String(length).length + bytes;
  return length + rest;
}

function block(name, type, size) {
  const bytes = new Uint8Array(512);
  const put = (text, at) => bytes.set(new TextEncoder().encode(text), at);
  const octal = (number, digits) => number.toString(8).padStart(digits, "0");
  put(name, 0);
  put("0000644\0", 100);
  put("0000000\0", 108);
  put("0000000\0", 116);
  put(octal(size, 11), 124);
  put(octal(0, 11), 136);
  put("        ", 148);
  put(type, 156);
  put("ustar\x0000", 257);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  put(`${octal(sum, 6)}\0 `, 148);
  return bytes;
}
