"""Models of keras_models.py with numbers, their inputs, and their results."""

import keras_models
import numpy as np


def build(library, name):
    """A model of keras_models.py with random numbers in all its variables."""
    library.utils.set_random_seed(7)
    library.backend.clear_session()
    model, random = keras_models.MODELS[name](library), np.random.default_rng(3)
    for variable in model.weights:
        name = getattr(variable, "path", variable.name)
        if "seed_generator" not in name and np.issubdtype(np.dtype(str(getattr(variable.dtype, "name", variable.dtype))), np.floating):
            variable.assign(random.uniform(0.1, 0.9, variable.shape) * (1 if "variance" in name else random.choice([-1, 1], variable.shape)))
    for layer in model.layers:
        # It computes with copies of its variables.
        if type(layer).__name__ == "Normalization":
            layer.finalize_state()
    return model


def inputs(model, random):
    """An array for each input: numbers of rows where the model looks these up, and 0 and 1, as masks have, where it takes integers."""
    found = []
    for value in model.inputs:
        shape = [2] + [size or 7 for size in value.shape[1:]]
        is_of_rows = takes_rows(model, value)
        is_whole = is_of_rows or "int" in str(getattr(value.dtype, "name", value.dtype))
        whole = random.integers(0, 5 if is_of_rows else 2, shape).astype(np.int32)
        array = whole if is_whole else random.normal(size=shape).astype(np.float32)
        found.append(array)
    return found


def takes_rows(model, value):
    name = value.name.split(":")[0]
    for layer in model.layers:
        own = layer.input if hasattr(layer, "input") and not isinstance(layer.input, (list, tuple, dict)) else None
        if type(layer).__name__ == "Embedding" and own is not None and own.name.split(":")[0] == name:
            return True
    return False


def flat(value):
    """The arrays of a result, in the order of the model's outputs."""
    if isinstance(value, dict):
        return [item for key in value for item in flat(value[key])]
    if isinstance(value, (list, tuple)):
        return [item for one in value for item in flat(one)]
    return [np.asarray(value)]
