//! Pickles of `paddle.save`: NumPy arrays in dicts, lists and tuples. Nothing of a pickle is run.

use super::slices;
use super::walk::{self, Found, Leaf};
use crate::format::{KEY_VALUES, NAMESPACE, OPTION_BF16, PARAMETER_NAMES};
use ckpt_api::{
    Contents, DType, Error, File, Kind, Limit, Limits, MetadataMap, Result, Rules, Setting, TensorId, Viewed,
    text,
};
use ckpt_containers::pickle::{Feed, Names, Tree, Value, numpy, parse};
use std::collections::HashSet;

/// What would run the calls of a pickle.
const LOADER: &str = "paddle.load";
/// Bytes of an array that are not read to open the pickle.
const LARGE: u64 = 4 << 10;
/// Memory that the tree takes for each tensor.
const EACH_BYTES: u64 = 1024;
/// Key of metadata: arrays of integers were read as bf16.
pub(crate) const KEY_BF16: &str = "bf16";

/// Whether a file begins as a pickle of protocol 2 or later.
pub(super) fn begins_as_pickle(file: &File) -> Result<bool> {
    Ok(file.len() > 2 && matches!(file.bytes(0, 2)?[..], [0x80, 2..=5]))
}

/// Whether a pickle is one of Paddle's: arrays under a name that says so, or with a key that only Paddle writes.
///
/// # Errors
/// [`Kind::Io`].
pub(super) fn is_paddle(file: &File, is_named: bool, limits: &Limits) -> Result<bool> {
    match tree(file, limits) {
        Ok(tree) => {
            let is_key = |id| matches!(tree.value(id), Value::Text(text) if text == PARAMETER_NAMES);
            let is_array = |id| tree.object(id).is_some_and(|object| numpy::is_array(&tree, object));
            Ok(tree.ids().any(is_array) && (is_named || tree.ids().any(is_key)))
        }
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(false),
    }
}

fn tree(file: &File, limits: &Limits) -> Result<Tree> {
    parse(Feed::new(file, 0, u64::MAX, limits).leaving_out(LARGE))
}

/// Reads a pickle. If `is_bf16`, arrays of integers of 16 bits without a sign are bf16.
///
/// # Errors
/// [`Kind::Corrupt`] for bytes that are no pickle, and for arrays whose bytes do not fill their shape;
/// [`Kind::Unsupported`] for calls and objects.
pub(super) fn read(file: &File, is_bf16: bool, limits: &Limits) -> Result<Contents> {
    let named = |error: Error| error.file(file.name());
    let tree = tree(file, limits).map_err(named)?;
    if tree.end() < file.len() {
        return Err(Error::unsupported("the file goes on behind the pickle")
            .file(file.name())
            .offset(tree.end())
            .found(ckpt_api::count(file.len().saturating_sub(tree.end()), "byte"))
            .expected("the end of the file"));
    }
    let names = Names::of(&tree);
    names.check_danger(&mut Rules::default(), LOADER).map_err(named)?;
    let (mut contents, mut values) = (Contents::default(), MetadataMap::new());
    let mut viewed = Viewed::default();
    viewed.open(file.len(), []);
    let mut leaves = walk::walk(&tree).map_err(named)?;
    for leaf in slices::joined(&tree, &mut leaves).map_err(named)? {
        let Leaf { name, found } = leaf;
        let on_tensor = |error: Error| error.tensor(name.escape_debug().to_string()).file(file.name());
        match found {
            Found::Foreign(error) => {
                let help = "save the parameters alone, as state_dict() returns them";
                return Err(on_tensor(error).help(help));
            }
            Found::Value(value) => {
                values.insert(name, value);
            }
            Found::Arrays(arrays, shape, is_marked) => {
                let id = TensorId(contents.placements.len());
                let (mut tensor, mut placement) =
                    slices::place(&tree, &arrays, shape, id, &name).map_err(on_tensor)?;
                viewed.add(&tensor).map_err(named)?;
                if (is_bf16 || is_marked) && tensor.dtype == DType::U16 {
                    tensor.dtype = DType::Bf16;
                    placement.encoding.dtype = DType::Bf16;
                }
                contents.placements.push(placement);
                contents.checkpoint.tensors.push(tensor);
            }
        }
    }
    limits.check(Limit::Tensors, contents.placements.len() as u64)?;
    check_names(&contents).map_err(named)?;
    if !values.is_empty() {
        contents.checkpoint.metadata.insert(NAMESPACE, KEY_VALUES, values);
    }
    if is_bf16 {
        contents.checkpoint.metadata.insert(NAMESPACE, KEY_BF16, true);
    }
    note_integers(&mut contents);
    let bytes = EACH_BYTES.saturating_mul(contents.placements.len() as u64);
    Ok(contents.with_working_memory(bytes.saturating_add(tree.pickle_bytes())))
}

/// Says that arrays of u16 may be bf16.
fn note_integers(contents: &mut Contents) {
    let tensors = &contents.checkpoint.tensors;
    let count = tensors.iter().filter(|tensor| tensor.dtype == DType::U16).count();
    if count > 0 {
        contents.add_notes([text![
            format!(
                "{} of u16: Paddle stores bf16 so, without a mark; if it is bf16, read it with ",
                ckpt_api::count(count as u64, "tensor")
            ),
            Setting::READ_OPTION.of(&format!("{OPTION_BF16}=true"))
        ]]);
    }
}

/// Checks that no two tensors have one name, which keys with dots make possible.
fn check_names(contents: &Contents) -> Result<()> {
    let tensors = &contents.checkpoint.tensors;
    let mut names = HashSet::with_capacity(tensors.len());
    match tensors.iter().find(|tensor| !names.insert(tensor.name.as_str())) {
        None => Ok(()),
        Some(tensor) => {
            Err(Error::unsupported("two tensors have the same name: their keys, joined with dots, are equal")
                .tensor(tensor.name.escape_debug().to_string())
                .help("save the arrays under other keys"))
        }
    }
}
