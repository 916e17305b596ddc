#!/usr/bin/env bash
# @tensorflow/tfjs 4.22.0: `BatchNormalization` along another axis than the last computes other numbers.
#
# Expected  (x - mean) / sqrt(variance) with the mean and variance of each channel, as Keras computes it; the layer takes `axis`.
# Happens   for inputs [channels, length] and axis 1, means and variances alternate from number to number, and nothing says so.
# Seen      below: the results for 2 channels of 3 numbers with means 1 and 2 and variances 4 and 9, and what the formula gives.
# Matters   a Keras model with channels first gives wrong results in the browser. A converter to TensorFlow.js must turn the axes, or
#           refuse the layer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @tensorflow/tfjs@4.22.0
cat >run.mjs <<'JAVASCRIPT'
import * as tf from "@tensorflow/tfjs";

await tf.setBackend("cpu");
const layer = tf.layers.batchNormalization({ axis: 1, epsilon: 0, inputShape: [2, 3] });
const model = tf.sequential({ layers: [layer] });
const [mean, variance] = [[1, 2], [4, 9]];
layer.setWeights([tf.ones([2]), tf.zeros([2]), tf.tensor1d(mean), tf.tensor1d(variance)]);
const x = [0, 1, 2, 3, 4, 5];
const shown = (numbers) => Array.from(numbers, (number) => number.toFixed(3)).join(" ");
console.log("tfjs    ", shown(model.predict(tf.tensor(x, [1, 2, 3])).dataSync()));
console.log("formula ", shown(x.map((number, at) => (number - mean[Math.floor(at / 3)]) / Math.sqrt(variance[Math.floor(at / 3)]))));
JAVASCRIPT
node run.mjs >seen 2>messages || { cat messages; exit 1; }
diff seen - <<'SEEN'
tfjs     -0.500 -0.333 0.500 0.333 1.500 1.000
formula  -0.500 0.000 0.500 0.333 0.667 1.000
SEEN
