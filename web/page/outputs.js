// Where a conversion writes: the browser's private file system, on the disk. Where there is none, memory.
// Each page has a directory of its own there, and removes those of pages that are gone.
const PREFIX = "ckpt-";
const CHUNK = 1 << 20;
let directory;
let opened = [];

// Opens a file for each of the output's, empty, and returns what the module reads and writes.
export async function open(files) {
  await clear();
  const parent = await own();
  opened = [];
  for (const [number, file] of files.entries()) {
    if (parent) {
      const handle = await parent.getFileHandle(String(number), { create: true });
      const access = await handle.createSyncAccessHandle();
      access.truncate(file.bytes ?? 0);
      opened.push({ name: file.name, handle, access });
    } else {
      const access = new MemoryFile();
      access.truncate(file.bytes ?? 0);
      opened.push({ name: file.name, access });
    }
  }
  return opened.map((file) => file.access);
}

// Whether the output is on the disk.
export const isOnDisk = () => directory != null;

// Ends writing, and returns the files by their names.
export async function close() {
  const files = [];
  for (const { name, handle, access } of opened) {
    access.flush();
    access.close();
    files.push({ name, file: handle ? await handle.getFile() : access.blob() });
  }
  return files;
}

// Removes what was written before.
export async function clear() {
  opened.forEach(({ access }) => access.close());
  opened = [];
  const parent = await own();
  if (!parent) return;
  for (const name of await namesIn(parent)) await parent.removeEntry(name).catch(() => {});
}

// The directory of this page; null where the browser offers none.
async function own() {
  if (directory !== undefined) return directory;
  directory = null;
  try {
    if (!("createSyncAccessHandle" in FileSystemFileHandle.prototype)) return null;
    const root = await navigator.storage.getDirectory();
    const name = PREFIX + crypto.randomUUID();
    // Held as long as this worker lives: who can take it may remove the directory.
    await new Promise((held, failed) => {
      navigator.locks.request(name, () => (held(), new Promise(() => {}))).catch(failed);
    });
    await removeOthers(root, name);
    directory = await root.getDirectoryHandle(name, { create: true });
  } catch {
    // Private windows and pages of the file system have none.
  }
  return directory;
}

async function removeOthers(root, own) {
  for (const name of await namesIn(root)) {
    if (!name.startsWith(PREFIX) || name === own) continue;
    await navigator.locks.request(name, { ifAvailable: true }, (lock) =>
      lock ? root.removeEntry(name, { recursive: true }).catch(() => {}) : undefined,
    );
  }
}

// All names, before one of them goes.
async function namesIn(directory) {
  const names = [];
  for await (const name of directory.keys()) names.push(name);
  return names;
}

// A file in memory, with the methods of a FileSystemSyncAccessHandle.
class MemoryFile {
  chunks = new Map();
  size = 0;

  truncate(size) {
    this.size = size;
  }

  getSize() {
    return this.size;
  }

  write(bytes, { at }) {
    this.each(at, bytes.length, (chunk, from, to, done) => {
      if (!this.chunks.has(chunk)) this.chunks.set(chunk, new Uint8Array(CHUNK));
      this.chunks.get(chunk).set(bytes.subarray(done, done + to - from), from);
    });
    this.size = Math.max(this.size, at + bytes.length);
    return bytes.length;
  }

  read(buffer, { at }) {
    const length = Math.max(0, Math.min(buffer.length, this.size - at));
    this.each(at, length, (chunk, from, to, done) => {
      const bytes = this.chunks.get(chunk);
      if (bytes) buffer.set(bytes.subarray(from, to), done);
      else buffer.fill(0, done, done + to - from);
    });
    return length;
  }

  // Calls `use` with each chunk of a range: its number, the range in it, and the bytes before.
  each(at, length, use) {
    for (let done = 0; done < length; ) {
      const from = (at + done) % CHUNK;
      const to = Math.min(CHUNK, from + length - done);
      use(Math.floor((at + done) / CHUNK), from, to, done);
      done += to - from;
    }
  }

  flush() {}

  close() {}

  blob() {
    const parts = [];
    for (let at = 0; at < this.size; at += CHUNK) {
      const bytes = this.chunks.get(at / CHUNK) ?? new Uint8Array(CHUNK);
      parts.push(bytes.subarray(0, Math.min(CHUNK, this.size - at)));
    }
    return new Blob(parts);
  }
}
