//! The calls that make arrays: those of NumPy, and JAX's, which holds one of NumPy.
//!
//! ```text
//! jax._src.array _reconstruct_array(numpy's _reconstruct, its arguments, its state, {'weak_type': …})
//! ```

use ckpt_api::{Error, Result};
use ckpt_containers::pickle::numpy::{self, Array};
use ckpt_containers::pickle::{Id, List, Object, Tree, Value, shown};

/// Whether a call makes an array, as far as its names and its dtype tell.
pub(super) fn is_array(tree: &Tree, object: Object) -> bool {
    numpy::is_array(tree, jax(tree, object).unwrap_or(object))
}

/// The array that a call makes, of rank 0 for a number of NumPy; `None` for any other call.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for bytes that do not fill the shape.
pub(super) fn array(tree: &Tree, object: Object) -> Result<Option<Array>> {
    match jax(tree, object) {
        Some(within) => numpy::array(tree, within),
        None => match numpy::array(tree, object)? {
            Some(array) => Ok(Some(array)),
            None => numpy::scalar(tree, object),
        },
    }
}

/// The call of NumPy that an array of JAX is made of. What it calls is whatever the pickle names.
fn jax(tree: &Tree, object: Object) -> Option<Object> {
    tree.global(object.callable).filter(|name| *name == ("jax._src.array", "_reconstruct_array"))?;
    let [callable, arguments, state, _] = tree.tuple(object.arguments)?;
    let (items, entries) = (List::EMPTY, List::EMPTY);
    Some(Object { callable, arguments, keywords: Id::NONE, state: Some(state), items, entries })
}

/// Whether an array needs what is called so.
pub(super) fn is_known(module: &str, name: &str) -> bool {
    let is_array = matches!(module.split('.').next(), Some("numpy" | "ml_dtypes"));
    is_array || matches!((module, name), ("jax._src.array", "_reconstruct_array") | ("_codecs", "encode"))
}

/// The error of a value that is neither an array nor a plain value.
pub(super) fn foreign(tree: &Tree, id: Id) -> Error {
    Error::unsupported("the pickle holds something else than arrays of numbers and plain values")
        .found(described(tree, id))
        .expected("dicts, lists and tuples of arrays")
}

fn described(tree: &Tree, id: Id) -> String {
    let called = |object: Object, what: &str| match tree.callable(object) {
        Some((module, name)) => format!("{what} {}", shown(module, name)),
        None => "a call".to_owned(),
    };
    match tree.value(id) {
        Value::Global(module, name) => shown(module, name),
        Value::Object(object) => match (jax(tree, object), numpy::described(tree, object)) {
            (Some(within), _) => match numpy::described(tree, within) {
                Some(array) => array.replace("NumPy", "JAX"),
                None => called(within, "an array of JAX that is made by a call of"),
            },
            (None, Some(array)) => array,
            (None, None) => called(object, "a call of"),
        },
        Value::Set(_) => "a set".to_owned(),
        Value::Long(_) => "an integer of more than 64 bits".to_owned(),
        Value::Persistent(_) => "an object outside of the pickle".to_owned(),
        Value::Bytes(_) | Value::Apart(..) | Value::Buffer => "bytes".to_owned(),
        _ => "a value of an unknown kind".to_owned(),
    }
}
