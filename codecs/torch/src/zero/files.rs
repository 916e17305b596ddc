//! Finds the files of a ZeRO checkpoint.

use ckpt_api::{Error, Input, Result, first_few};

/// The file with the name of the folder of the last step.
const LATEST: &str = "latest";
/// Bytes of the longest name.
const LONGEST: u64 = 4096;
const OPTIM: &str = "_optim_states.pt";
const MODEL: &str = "_model_states.pt";
const RANK: &str = "zero_pp_rank_";
/// The only part of a model that is not cut across devices.
const ALONE: &str = "mp_rank_00";

/// The files of a checkpoint, relative to the input's directory.
pub(super) struct Files {
    /// In the order of the ranks; in stages 1 and 2, one.
    pub(super) models: Vec<String>,
    /// The parts of the ranks, in their order.
    pub(super) ranks: Vec<String>,
}

/// Whether the input is a directory of such a checkpoint.
///
/// # Errors
/// Those of [`Input::list`].
pub(crate) fn is_zero(input: &Input) -> Result<bool> {
    if !input.is_directory() {
        return Ok(false);
    }
    let Ok(folder) = folder(input) else { return Ok(false) };
    let names = match input.list(&folder) {
        Err(error) if error.kind() == ckpt_api::Kind::Io => Vec::new(),
        names => names?,
    };
    Ok(names.iter().any(|name| name.contains(RANK) && name.ends_with(OPTIM)))
}

/// The folder of the last step, if the directory names one that is there.
pub(crate) fn last_step(input: &Input) -> Option<String> {
    folder(input).ok().filter(|folder| !folder.is_empty())
}

impl Files {
    pub(super) fn find(input: &Input) -> Result<Files> {
        let folder = folder(input)?;
        let names = input.list(&folder)?;
        let cut = names.iter().filter(|name| is_states(name) && !name.contains(ALONE));
        let cut: Vec<String> = cut.cloned().collect();
        if !cut.is_empty() {
            return Err(Error::unsupported(
                "the model is cut across devices (tensor or pipeline parallelism)",
            )
            .file(input.display(&folder))
            .found(first_few(&cut, 3))
            .expected(format!("files of {ALONE} alone"))
            .help("merge the checkpoint with the tools of its framework"));
        }
        let path = |name: &String| match folder.as_str() {
            "" => name.clone(),
            folder => format!("{folder}/{name}"),
        };
        let of = |ending: &str| {
            let mut found: Vec<(Option<u64>, String)> = names
                .iter()
                .filter(|name| name.ends_with(ending))
                .map(|name| (rank(name), path(name)))
                .collect();
            found.sort();
            found.into_iter().map(|(_, name)| name).collect::<Vec<String>>()
        };
        let (models, ranks) = (of(MODEL), of(OPTIM));
        if models.is_empty() || ranks.is_empty() {
            let missing = if models.is_empty() { MODEL } else { OPTIM };
            return Err(Error::corrupt("files of the ZeRO checkpoint are missing")
                .file(input.display(&folder))
                .found(format!("no file *{missing}"))
                .help("copy the files of all ranks into one directory"));
        }
        Ok(Files { models, ranks })
    }
}

fn is_states(name: &str) -> bool {
    name.ends_with(OPTIM) || name.ends_with(MODEL)
}

/// The number of the rank in a file's name.
fn rank(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once(RANK)?;
    rest.split('_').next()?.parse().ok()
}

/// The folder with the files: the one that `latest` names, or the input itself.
fn folder(input: &Input) -> Result<String> {
    if !input.has_file(LATEST) {
        return Ok(String::new());
    }
    let file = input.file(LATEST)?;
    let wrong = || Error::corrupt("the file does not name the folder of the last step").file(file.name());
    if file.len() > LONGEST {
        return Err(wrong().found(ckpt_api::count(file.len(), "byte")));
    }
    let text = String::from_utf8(file.bytes(0, file.len())?).map_err(|_| wrong())?;
    let name = text.trim();
    match name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        true => Err(wrong().found(format!("'{}'", name.escape_debug()))),
        false => Ok(name.to_owned()),
    }
}
