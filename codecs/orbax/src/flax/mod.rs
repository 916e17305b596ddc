//! Files that hold a tree and its arrays: Flax's own, in msgpack, and pickles.

use crate::format::FLAX_NAMESPACE as NAMESPACE;
use crate::msgpack::{HEAD, Tree, Value, begins_as_tree};
use crate::ocdbt::Files;
use crate::pickle;
use crate::read::locate::number;
use crate::read::within_file;
use crate::roles;
use crate::tree::{Content, old, path_metadata};
use ckpt_api::{
    Contents, Error, FileId, Input, Limits, Match, MetadataMap, Options, Result, TensorId, Text, count,
};

/// The name that the Hugging Face Hub knows.
pub(crate) const HUB_FILE: &str = "flax_model.msgpack";

/// The ending of files.
pub(crate) const EXTENSION: &str = "msgpack";

/// How files of steps begin.
const STEPS: &str = "checkpoint_";

/// Endings of files of other formats: a folder that has them is theirs.
const OTHERS: [&str; 7] = ["safetensors", "bin", "pt", "pth", "h5", "index", "gguf"];

/// Memory that the tree takes for each tensor.
const EACH_BYTES: u64 = 640;

/// See [`ckpt_api::Codec::probe`].
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let Some((name, _)) = locate(input, None)? else { return Ok(Match::No) };
    let file = input.file(&name)?;
    if pickle::begins_as_pickle(&file)? && pickle::makes_arrays(&file, input.limits())? {
        return Ok(Match::Certain("a pickle with arrays of NumPy or JAX".to_owned()));
    }
    let is_tree = begins_as_tree(&file.bytes(0, file.len().min(HEAD))?);
    Ok(match is_tree {
        true => Match::Certain("begins as a tree of Flax in msgpack does".to_owned()),
        false if name.ends_with(EXTENSION) => Match::Possible("is named like a file of Flax".to_owned()),
        false => Match::No,
    })
}

/// The file, and what to say of the choice.
fn locate(input: &Input, step: Option<u64>) -> Result<Option<(String, Vec<Text>)>> {
    if !input.is_directory() {
        return Ok(input.is_file().then(|| (input.entry().to_owned(), Vec::new())));
    }
    let names = input.list("")?;
    if names.iter().any(|name| OTHERS.iter().any(|ending| name.ends_with(&format!(".{ending}")))) {
        return Ok(None);
    }
    if names.iter().any(|name| name == HUB_FILE) {
        return Ok(Some((HUB_FILE.to_owned(), Vec::new())));
    }
    let of_step = |name: &String| Some((number(name.strip_prefix(STEPS)?)?, name.clone()));
    let mut steps: Vec<(u64, String)> = names.iter().filter_map(of_step).collect();
    steps.sort();
    let Some((newest, _)) = steps.last().cloned() else { return Ok(None) };
    let chosen = step.unwrap_or(newest);
    let found = steps.iter().find(|(number, _)| *number == chosen);
    let (step, name) = found
        .cloned()
        .ok_or_else(|| Error::usage("the folder has no such step").field("step").found(chosen.to_string()))?;
    let note = || {
        let others = count(steps.len() as u64, "step");
        ckpt_api::text![
            format!("step {step} of {others} is read: choose another with "),
            ckpt_api::Setting::READ_OPTION.of("step=N")
        ]
    };
    let notes = if steps.len() > 1 { vec![note()] } else { Vec::new() };
    Ok(Some((name, notes)))
}

/// See [`ckpt_api::Codec::read`].
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let step = options.text("step").map(|text| {
        text.parse().map_err(|_| Error::usage("the step is no number").field("step").found(text.to_owned()))
    });
    let (name, notes) = locate(input, step.transpose()?)?.ok_or_else(|| {
        Error::usage("the folder has no file of Flax")
            .file(input.display(""))
            .expected(format!("{HUB_FILE}, or files such as {STEPS}5"))
    })?;
    let mut files = Files::new(input);
    let number = files.number(&name);
    let file = files.open(number)?;
    if pickle::begins_as_pickle(&file)? {
        return Ok(pickle::read(&file, files.names, options, limits)?.with_notes(notes));
    }
    let tree = Tree::parse(&file, limits)?;
    if let Value::Native(_) | Value::Other = tree.value(Tree::ROOT) {
        return Err(Error::corrupt("the file holds a value that is no tree")
            .file(file.name())
            .expected("a map, a list or an array"));
    }
    let mut contents = Contents::default().with_notes(notes);
    let mut values = MetadataMap::new();
    for leaf in old::leaves(&tree).map_err(|error| error.file(file.name()))? {
        match &leaf.content {
            Content::Within(array) => {
                let (mut tensor, placement) = within_file(&leaf.name, array, FileId(0));
                if let Some(path) = &leaf.path {
                    tensor.metadata.insert(NAMESPACE, "path", path_metadata(path));
                }
                contents.placements.push(placement.with_tensor(TensorId(contents.placements.len())));
                contents.checkpoint.tensors.push(tensor);
            }
            Content::Named(stored) => {
                return Err(Error::unsupported("an array is stored beside the file")
                    .file(file.name())
                    .tensor(leaf.name.escape_debug().to_string())
                    .found(format!("'{}'", stored.escape_debug()))
                    .help("name the folder of the checkpoint instead of this file"));
            }
            Content::Value(value) => {
                values.insert(leaf.name, value.clone());
            }
            Content::Array | Content::Text | Content::Empty(_) => {}
        }
    }
    contents.files = files.names;
    if !values.is_empty() {
        contents.checkpoint.metadata.insert(NAMESPACE, "values", values);
    }
    roles::assign(&mut contents.checkpoint.tensors);
    let bytes = EACH_BYTES.saturating_mul(contents.placements.len() as u64);
    Ok(contents.with_working_memory(bytes))
}
