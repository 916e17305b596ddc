// Runs models of TensorFlow.js: node run.mjs JOBS, a file of JSON: [{"folder", "inputs": [{"shape", "dtype", "data"}]}].
// Prints a line of JSON for each job: {"outputs": [{"shape", "data"}]}, or {"error"}. A job without inputs is of weights alone:
// {"weights": {name: {"dtype", "shape", "data"}}}, as TensorFlow.js decodes them.
import * as tf from '@tensorflow/tfjs';
import fs from 'fs';
import path from 'path';

/** Reads a model's files, as a browser would fetch them. */
function files(folder) {
  const model = JSON.parse(fs.readFileSync(path.join(folder, 'model.json'), 'utf8'));
  const shards = model.weightsManifest.flatMap((group) => group.paths).map((name) => fs.readFileSync(path.join(folder, name)));
  const data = new Uint8Array(Buffer.concat(shards)).buffer;
  const specs = model.weightsManifest.flatMap((group) => group.weights);
  return { ...model, weightSpecs: specs, weightData: data };
}

function tensor({ shape, dtype, data }) {
  return tf.tensor(data, shape, dtype);
}

async function plain(value) {
  return { shape: value.shape, data: Array.from(await value.data()) };
}

async function run({ folder, inputs }) {
  const artifacts = files(folder);
  if (!inputs) {
    const weights = tf.io.decodeWeights(artifacts.weightData, artifacts.weightSpecs);
    const shown = {};
    for (const [name, value] of Object.entries(weights)) {
      // Texts as texts; numbers as their bytes, so that no digit is lost.
      const data = await value.data();
      const bytes = value.dtype === 'string' ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
      shown[name] = { dtype: value.dtype, shape: value.shape, data: bytes };
    }
    return { weights: shown };
  }
  const handler = { load: async () => artifacts };
  const is_graph = artifacts.format === 'graph-model';
  const model = is_graph ? await tf.loadGraphModel(handler) : await tf.loadLayersModel(handler);
  const given = inputs.map(tensor);
  const made = model.predict(given.length > 1 ? given : given[0]);
  const outputs = await Promise.all((Array.isArray(made) ? made : [made]).map(plain));
  return { outputs };
}

await tf.setBackend('cpu');
for (const job of JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))) {
  let answer;
  try {
    answer = await run(job);
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer, (_, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value)));
  tf.disposeVariables();
}
