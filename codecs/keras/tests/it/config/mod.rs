//! Tests of configurations as a whole. `models` has those of Keras 3 and `tf_keras` that
//! `tests/interop/keras_configs.py --fixtures` writes.

mod described;
mod operators;
mod properties;
mod recurrent;
mod support;
