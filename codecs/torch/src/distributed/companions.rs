//! Files beside the shards in which trainers store what is not the model's: epochs, arguments, settings.

use crate::container;
use crate::format::keys::COMPANIONS;
use crate::format::{ENDINGS, LOADER};
use crate::object::walk::walk;
use ckpt_api::{Contents, Input, Kind, Limits, Result, Rules, count, first_few};
use ckpt_containers::pickle::Names;

/// Names that a note lists.
const SHOWN: usize = 5;

/// Adds the values of such files as metadata, and names what is left out. Returns what their pickles name.
///
/// # Errors
/// Those of opening a file.
pub(super) fn read(
    input: &Input,
    rules: &mut Rules,
    limits: &Limits,
    contents: &mut Contents,
) -> Result<Names> {
    let mut names = Names::default();
    if !input.is_directory() {
        return Ok(names);
    }
    for (name, namespace) in COMPANIONS {
        if input.has_file(name) {
            let own = add(input, (name, namespace), rules, limits, contents);
            names.merge(own.map_err(|error| error.file(input.display(name)))?);
        }
    }
    let is_other = |name: &String| {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        ending.is_some_and(|ending| ENDINGS.contains(&ending))
            && COMPANIONS.iter().all(|(own, _)| name != own)
    };
    let others: Vec<String> = input.list("")?.into_iter().filter(is_other).collect();
    if !others.is_empty() {
        let files = count(others.len(), "file");
        contents
            .notes
            .push(format!("{files} beside the shards not read: {}", first_few(&others, SHOWN)).into());
    }
    Ok(names)
}

fn add(
    input: &Input,
    (name, namespace): (&str, &str),
    rules: &mut Rules,
    limits: &Limits,
    contents: &mut Contents,
) -> Result<Names> {
    let saved = match container::open(&input.file(name)?, limits) {
        Err(error) if error.kind() == Kind::Unsupported => {
            contents.notes.push(format!("'{name}' beside the shards not read: {}", error.message()).into());
            return Ok(Names::default());
        }
        opened => opened?,
    };
    saved.names.check_danger(rules, LOADER)?;
    let found = walk(&saved.tree, saved.tree.root(), namespace)?;
    for (namespace, values) in found.metadata.iter() {
        for (key, value) in values.iter() {
            contents.checkpoint.metadata.insert(namespace, key, value.clone());
        }
    }
    if !found.tensors.is_empty() {
        let tensors: Vec<&String> = found.tensors.iter().map(|(name, _)| name).collect();
        contents.notes.push(
            format!(
                "{} of '{name}' left out, which can be read from that file: {}",
                count(tensors.len(), "tensor"),
                first_few(&tensors, SHOWN)
            )
            .into(),
        );
    }
    if found.dropped.count > 0 {
        let values = count(found.dropped.count, "value");
        contents.notes.push(format!("{values} of '{name}' left out: {}", found.dropped).into());
    }
    Ok(saved.names)
}
