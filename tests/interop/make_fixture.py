#!/usr/bin/env python3
"""Makes examples/data/digits, digits_saved_model and digits_io.json: a small classifier, really trained.

    python tests/interop/make_fixture.py [OUT]      (needs tensorflow-cpu; OUT defaults to examples/data)

The pictures are made here: ten 5x7 glyphs, shifted, scaled in brightness and overlaid with noise on 8x8 pixels.
"""

import json
import os
import pathlib
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
import tensorflow as tf

GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ..##. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. .#... ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. #.... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` pictures of 8x8 pixels in 0..1, flattened, and the digits they show."""
    random = np.random.default_rng(seed)
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    glyphs = np.array([[[c == "#" for c in row[digit]] for row in rows] for digit in range(10)], np.float32)
    digits = random.integers(0, 10, count)
    images = np.zeros((count, 8, 8), np.float32)
    for image, digit in zip(images, digits):
        y, x = random.integers(0, 2), random.integers(0, 4)
        image[y : y + 7, x : x + 5] = glyphs[digit] * random.uniform(0.6, 1.0)
    images += random.normal(0, 0.15, images.shape)
    return np.clip(images, 0, 1).reshape(count, 64).astype(np.float32), digits


def train() -> keras.Model:
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    layers = [
        keras.layers.Dense(32, activation="relu", name="hidden"),
        keras.layers.Dense(10, activation="softmax", name="digit"),
    ]
    model = keras.Sequential([keras.Input((64,), name="pixels"), *layers], name="digits")
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*pictures(4000, 1), batch_size=100, epochs=8, verbose=0)
    return model


def main() -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "examples" / "data"
    model = train()
    accuracy = model.evaluate(*pictures(1000, 2), verbose=0)[1]
    assert accuracy > 0.95, accuracy

    for folder in ("digits", "digits_saved_model"):
        shutil.rmtree(out / folder, ignore_errors=True)
    tf.train.Checkpoint(model=model).save(str(out / "digits" / "ckpt"))
    with open(out / "digits" / "checkpoint", "w") as state:  # without the time stamps that `save` writes
        state.write('model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n')
    model.export(str(out / "digits_saved_model"), verbose=False)
    for empty in ("assets",):
        shutil.rmtree(out / "digits_saved_model" / empty, ignore_errors=True)

    x, digits = pictures(16, 3)
    y = model(x, training=False).numpy()
    sample = {
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "accuracy": round(float(accuracy), 4),
        "digits": digits.tolist(),
        "x": [[float(v) for v in row] for row in x],
        "y": [[float(v) for v in row] for row in y],
    }
    with open(out / "digits_io.json", "w") as file:
        json.dump(sample, file, separators=(",", ":"))
        file.write("\n")
    print(f"accuracy on 1000 unseen pictures: {accuracy:.4f}")


if __name__ == "__main__":
    main()
