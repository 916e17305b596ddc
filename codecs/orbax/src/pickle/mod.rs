//! Pickles of JAX and NumPy arrays in dicts, lists and tuples. Nothing of a pickle is run.

mod array;
mod walk;

use crate::format::FLAX_NAMESPACE as NAMESPACE;
use crate::roles;
use crate::tree::{Content, Leaf, path_metadata};
use ckpt_api::{
    Contents, Error, File, FileId, Kind, Limit, Limits, MetadataMap, Options, Result, Rules, Setting,
    TensorId, Viewed, text,
};
use ckpt_containers::pickle::{Feed, Names, Tree, Value, parse};
use std::collections::HashSet;
use walk::Found;

/// What would run the calls of a pickle.
const LOADER: &str = "pickle.load";

/// Bytes of an array that are not read to open the pickle.
const LARGE: u64 = 4 << 10;

/// Memory that the tree takes for each tensor.
const EACH_BYTES: u64 = 1024;

/// Endings of PaddlePaddle's files, and a key that it puts beside the arrays: their bf16 is unmarked there.
const PADDLE: [&str; 2] = [".pdparams", ".pdopt"];
const PADDLE_KEY: &str = "StructuredToParameterName@@";

/// Whether a file begins as a pickle of protocol 2 or later.
pub(crate) fn begins_as_pickle(file: &File) -> Result<bool> {
    Ok(file.len() > 2 && matches!(file.bytes(0, 2)?[..], [0x80, 2..=5]))
}

/// Whether a file is a pickle that makes arrays, and none of PaddlePaddle's.
///
/// # Errors
/// [`Kind::Io`].
pub(crate) fn makes_arrays(file: &File, limits: &Limits) -> Result<bool> {
    let name = file.name().to_ascii_lowercase();
    if PADDLE.iter().any(|ending| name.ends_with(ending)) {
        return Ok(false);
    }
    match tree(file, limits) {
        Ok(tree) => {
            let is_key = |id| matches!(tree.value(id), Value::Text(text) if text == PADDLE_KEY);
            let mut objects = tree.ids().filter_map(|id| tree.object(id));
            Ok(objects.any(|object| array::is_array(&tree, object)) && !tree.ids().any(is_key))
        }
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(false),
    }
}

fn tree(file: &File, limits: &Limits) -> Result<Tree> {
    parse(Feed::new(file, 0, u64::MAX, limits).leaving_out(LARGE))
}

/// Reads a pickle, of whose input `files` names the files.
///
/// # Errors
/// [`Kind::Corrupt`] for bytes that are no pickle, and for arrays whose bytes do not fill their shape;
/// [`Kind::Unsupported`] for calls and objects, unless the rules are lenient.
pub(crate) fn read(file: &File, files: Vec<String>, options: &Options, limits: &Limits) -> Result<Contents> {
    let named = |error: Error| error.file(file.name());
    let mut rules = Rules::new(options);
    let tree = tree(file, limits).map_err(named)?;
    let names = Names::of(&tree);
    names.check_danger(&mut rules, LOADER).map_err(named)?;
    let (mut contents, mut values) = (Contents::default(), MetadataMap::new());
    let mut viewed = Viewed::default();
    viewed.open(file.len(), []);
    for (path, found) in walk::walk(&tree).map_err(named)? {
        let place = walk::shown_path(&path);
        match found {
            Found::Foreign(error) => {
                let error = if place.is_empty() { error } else { error.tensor(&place) };
                let error = error.file(file.name()).help(text![
                    "save the parameters alone, as dicts of arrays; or leave it out with ",
                    Setting::READ_OPTION.of("lenient=true")
                ]);
                rules.mend(&place, "it is left out", error)?;
            }
            Found::Value(value) => {
                values.insert(place, value);
            }
            Found::Array(array) => {
                let leaf = Leaf::new(path, Content::Array);
                let id = TensorId(contents.placements.len());
                let own = array.place(&tree, (FileId(0), tree.start()), id, &leaf.name);
                let (mut tensor, placement) = own.map_err(|error| error.tensor(&place).file(file.name()))?;
                viewed.add(&tensor).map_err(named)?;
                if let Some(path) = &leaf.path {
                    tensor.metadata.insert(NAMESPACE, "path", path_metadata(path));
                }
                contents.placements.push(placement);
                contents.checkpoint.tensors.push(tensor);
            }
        }
    }
    limits.check(Limit::Tensors, contents.placements.len() as u64)?;
    check_names(&contents).map_err(named)?;
    contents.files = files;
    if !values.is_empty() {
        contents.checkpoint.metadata.insert(NAMESPACE, "values", values);
    }
    roles::assign(&mut contents.checkpoint.tensors);
    contents.add_notes(names.without(array::is_known).note());
    let bytes = EACH_BYTES.saturating_mul(contents.placements.len() as u64);
    let bytes = bytes.saturating_add(tree.pickle_bytes());
    Ok(contents.with_repairs(rules.repairs).with_working_memory(bytes))
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
