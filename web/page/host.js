// What the WebAssembly module calls in its worker: reads of chosen files, reads and writes of the output, progress.
// Errors are thrown as texts, which become the reason of an error that names the file.
const reader = new FileReaderSync();
// A message for each piece of a large file would be thousands a second.
const INTERVAL = 60;
let inputs = [];
let outputs = [];
let tell = () => {};
let told = 0;
let pending = 0;
let defects = [];

export function setInput(number, file) {
  inputs[number] = file;
}

export function setOutputs(handles) {
  outputs = handles;
}

export function onProgress(listener) {
  tell = listener;
  told = pending = 0;
}

// What the module said before it ended, if it ended by a defect.
export function takeDefect() {
  const message = defects.join("\n");
  defects = [];
  return message;
}

export function readInput(number, offset, buffer) {
  const from = Number(offset);
  let bytes;
  try {
    bytes = reader.readAsArrayBuffer(inputs[number].slice(from, from + buffer.length));
  } catch (error) {
    if (error.name === "NotReadableError" || error.name === "NotFoundError")
      throw "it has changed, moved or gone since you chose it: choose it again";
    throw reason(error);
  }
  buffer.set(new Uint8Array(bytes));
  return bytes.byteLength;
}

export function readOutput(number, offset, buffer) {
  try {
    return outputs[number].read(buffer, { at: Number(offset) });
  } catch (error) {
    throw reason(error);
  }
}

export function writeOutput(number, offset, bytes) {
  let written = 0;
  try {
    while (written < bytes.length) {
      const part = written === 0 ? bytes : bytes.subarray(written);
      const count = outputs[number].write(part, { at: Number(offset) + written });
      if (count === 0) throw new Error("the browser wrote nothing");
      written += count;
    }
  } catch (error) {
    throw reason(error);
  }
}

export function outputSize(number) {
  try {
    return BigInt(outputs[number].getSize());
  } catch (error) {
    throw reason(error);
  }
}

// `bytes` more were read or converted; 0 begins a phase.
export function progress(what, bytes) {
  if (bytes === 0n) {
    pending = 0;
    tell({ phase: what });
    return;
  }
  pending += Number(bytes);
  const now = performance.now();
  if (now - told < INTERVAL) return;
  tell({ what, bytes: pending });
  told = now;
  pending = 0;
}

export function defect(message) {
  defects.push(message);
}

function reason(error) {
  if (error.name === "QuotaExceededError") return "the browser has no more room for it";
  return error.message || String(error);
}
