//! Finds the items of a checkpoint: in the folder that the user names, in a step below it, or in the newest of its steps.

use super::steps::listed;
use crate::format::{ARRAY_METADATA, MANIFEST, OLD_TREE, PROCESS, STEP, STRINGS, TREE, is_unfinished, join};
use crate::msgpack;
use ckpt_api::{Error, Input, Result, Text, first_few};

/// What holds tensors, or other things of a checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Empty for a folder that is the one item.
    pub(crate) name: String,
    pub(crate) folder: String,
}

#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) items: Vec<Item>,
    /// The number of the step, if the folder holds steps.
    pub(crate) step: Option<u64>,
    /// Folders beside the items, which may hold JSON.
    pub(crate) others: Vec<Item>,
    pub(crate) notes: Vec<Text>,
}

/// Folders that a folder without its own metadata may have, so that each of them is looked into.
const MOST_FOLDERS: usize = 16;

/// Names of items, for stores that cannot be listed.
const USUAL_ITEMS: [&str; 2] = ["default", "state"];

/// Folders of an item that are none themselves.
const OWN_FOLDERS: [&str; 2] = ["array_metadatas", "d"];

/// Where the item of a random key keeps its data.
const RANDOM_KEY: &str = "jax_random_key";

/// Steps that a message lists.
const SHOWN: usize = 12;

/// Finds the items; `None` if the folder holds nothing of a checkpoint.
///
/// # Errors
/// Those of listing; [`ckpt_api::Kind::Corrupt`] for a save that did not finish, [`ckpt_api::Kind::Usage`] for a step that is
/// not there.
pub(crate) fn locate(input: &Input, step: Option<u64>) -> Result<Option<Located>> {
    if !input.is_directory() {
        return Ok(None);
    }
    check_finished(&input.display(""))?;
    // A store far away looks for all of them at once.
    input.will_open(&[TREE, MANIFEST, OLD_TREE, STEP, STRINGS, ARRAY_METADATA]);
    if let Some(located) = items(input, "")? {
        return match step {
            None => Ok(Some(located)),
            Some(_) => Err(Error::usage("the folder holds no steps, but one checkpoint").field("step")),
        };
    }
    steps(input, step)
}

/// Refuses a folder whose save did not finish.
fn check_finished(path: &str) -> Result<()> {
    let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(path);
    match is_unfinished(name) {
        false => Ok(()),
        true => Err(Error::corrupt("the save of this checkpoint did not finish")
            .file(path)
            .help("use an earlier step: a folder gets its final name when its save is complete")),
    }
}

/// The items in a folder.
fn items(input: &Input, folder: &str) -> Result<Option<Located>> {
    let located = |items, others| Located { items, step: None, others, notes: Vec::new() };
    if is_item(input, folder)? {
        let item = Item { name: String::new(), folder: folder.to_owned() };
        return Ok(Some(located(vec![item], Vec::new())));
    }
    let has_metadata = input.has_file(&join(folder, STEP));
    let mut folders = input.directories(folder)?;
    folders.retain(|name| !is_unfinished(name) && !OWN_FOLDERS.contains(&name.as_str()));
    if folders.is_empty() {
        folders.extend(USUAL_ITEMS.map(str::to_owned));
    }
    let are_steps = !has_metadata && folders.iter().all(|name| number(name).is_some());
    if are_steps || (!has_metadata && folders.len() > MOST_FOLDERS) {
        return Ok(None);
    }
    let names = folders.iter().flat_map(|name| {
        [TREE, MANIFEST, OLD_TREE, STRINGS, ARRAY_METADATA].map(|file| join(&join(folder, name), file))
    });
    input.will_open(&names.collect::<Vec<_>>());
    let (mut items, mut others) = (Vec::new(), Vec::new());
    for name in folders {
        let below = join(folder, &name);
        let key = join(&below, RANDOM_KEY);
        if is_item(input, &below)? {
            items.push(Item { name, folder: below });
        } else if input.has_file(&join(&key, TREE)) {
            items.push(Item { name, folder: key });
        } else {
            others.push(Item { name, folder: below });
        }
    }
    Ok((!items.is_empty()).then(|| located(items, others)))
}

/// Whether a folder has a tree or a database.
fn is_item(input: &Input, folder: &str) -> Result<bool> {
    let has = |name: &str| input.has_file(&join(folder, name));
    if [TREE, MANIFEST].into_iter().any(has) {
        return Ok(true);
    }
    Ok(has_old_tree(input, folder)? || !processes(input, folder)?.is_empty())
}

/// Whether a folder has a tree in msgpack: TensorFlow has files of this name, too.
pub(crate) fn has_old_tree(input: &Input, folder: &str) -> Result<bool> {
    let name = join(folder, OLD_TREE);
    if !input.has_file(&name) {
        return Ok(false);
    }
    let file = input.file(&name)?;
    Ok(msgpack::begins_as_tree(&file.bytes(0, file.len().min(msgpack::HEAD))?))
}

/// The folders with the databases of processes.
pub(crate) fn processes(input: &Input, folder: &str) -> Result<Vec<String>> {
    let mut folders = directories(input, folder)?;
    folders.retain(|name| name.starts_with(PROCESS));
    let folders = folders.into_iter().map(|name| join(folder, &name));
    Ok(folders.filter(|name| input.has_file(&join(name, MANIFEST))).collect())
}

/// The folders in a folder; none if it is not there.
fn directories(input: &Input, folder: &str) -> Result<Vec<String>> {
    match input.directories(folder) {
        Err(error) if error.is_missing() => Ok(Vec::new()),
        listed => listed,
    }
}

/// The number at the end of the name of a step.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.len() - name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    name.get(name.len() - digits..)?.parse().ok()
}

/// The items of the newest step, or of the one with this number.
fn steps(input: &Input, wanted: Option<u64>) -> Result<Option<Located>> {
    let folders = input.directories("")?;
    let (unfinished, finished): (Vec<_>, Vec<_>) = folders.into_iter().partition(|name| is_unfinished(name));
    let mut steps: Vec<(u64, String)> =
        finished.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    steps.sort();
    let Some((newest, _)) = steps.last().cloned() else { return Ok(None) };
    let chosen = wanted.unwrap_or(newest);
    let mut found = steps.iter().filter(|(number, _)| *number == chosen);
    let (step, folder) = match (found.next(), found.next()) {
        (Some(step), None) => step.clone(),
        (Some(_), Some(_)) => {
            return Err(Error::usage("two folders have the number of one step")
                .field("step")
                .found(chosen.to_string())
                .help("name the folder of the step itself"));
        }
        (None, _) => return Err(no_step(chosen, &steps)),
    };
    let Some(located) = items(input, &folder)? else { return Ok(None) };
    let mut notes: Vec<Text> = Vec::new();
    if steps.len() > 1 {
        let which = if wanted.is_some() { "as chosen" } else { "the newest" };
        notes.push(ckpt_api::text![
            format!(
                "step {step} is read, {which} of {}: choose another with ",
                ckpt_api::count(steps.len() as u64, "step")
            ),
            ckpt_api::Setting::READ_OPTION.of("step=N")
        ]);
        notes.extend(listed(input, &steps).map(Text::from));
    }
    if !unfinished.is_empty() {
        let names = first_few(&unfinished, SHOWN);
        notes.push(format!("saves that did not finish are left out: {names}").into());
    }
    Ok(Some(Located { step: Some(step), notes, ..located }))
}

fn no_step(chosen: u64, steps: &[(u64, String)]) -> Error {
    let known: Vec<String> = steps.iter().rev().map(|(number, _)| number.to_string()).collect();
    Error::usage("the folder has no such step")
        .field("step")
        .found(chosen.to_string())
        .expected(first_few(&known, SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> Input {
        Input::memory("", files.iter().map(|name| ((*name).to_owned(), b"\x81\xa1a\x80".to_vec())).collect())
    }

    fn names(located: &Located) -> Vec<(&str, &str)> {
        located.items.iter().map(|item| (item.name.as_str(), item.folder.as_str())).collect()
    }

    #[test]
    fn the_newest_step_is_the_one_with_the_highest_number() {
        let input = folder(&["9/default/_METADATA", "10/default/_METADATA", "11.orbax-checkpoint-tmp-5/x"]);
        let located = locate(&input, None).unwrap().unwrap();
        assert_eq!((located.step, names(&located)), (Some(10), vec![("default", "10/default")]));
        assert_eq!(located.notes.len(), 2, "{:?}", located.notes);
        assert_eq!(locate(&input, Some(9)).unwrap().unwrap().step, Some(9));
        assert!(locate(&input, Some(3)).unwrap_err().to_string().contains("no such step"));
        let prefixed = folder(&["run_00000002/_METADATA", "run_00000010/_METADATA"]);
        assert_eq!(locate(&prefixed, None).unwrap().unwrap().step, Some(10));
    }

    #[test]
    fn items_are_the_folders_that_hold_a_tree() {
        let input = folder(&[
            "_CHECKPOINT_METADATA",
            "state/_METADATA",
            "meta/metadata",
            "key/jax_random_key/_METADATA",
        ]);
        let located = locate(&input, None).unwrap().unwrap();
        assert_eq!(names(&located), [("key", "key/jax_random_key"), ("state", "state")]);
        assert_eq!(located.others.len(), 1);
        for one in ["manifest.ocdbt", "checkpoint", "ocdbt.process_0/manifest.ocdbt"] {
            assert_eq!(names(&locate(&folder(&[one]), None).unwrap().unwrap()), [("", "")], "{one}");
        }
        assert!(
            locate(&folder(&["model.safetensors", "checkpoint-500/model.safetensors"]), None)
                .unwrap()
                .is_none()
        );
    }
}
