//! Recognizes and reads a file, a set of files, or a directory.

mod file;
mod losses;
mod notes;
mod part;
mod ranks;
mod set;
#[cfg(test)]
mod tests;

use crate::container::{self, Kind, Sign};
use crate::format::{ENDINGS, INDEX_ENDING};
use crate::{distributed, zero};
use ckpt_api::{
    Contents, Error, File, Input, Limits, Match, Options, PartSet, Result, Rules, weights_left_elsewhere,
};
use set::Index;

/// What an input is.
enum Located {
    Nothing,
    File,
    Index(String),
    /// The files of one set, without an index.
    Parts(Vec<String>),
    /// The files of all ranks, in their order.
    Ranks(Vec<String>),
    /// The files of ranks that are not joined, and why.
    Apart(&'static str, Error),
    Distributed,
    Zero,
}

/// See [`ckpt_api::Codec::probe`].
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let certain = |why: &str| Ok(Match::Certain(why.to_owned()));
    match locate(input)? {
        Located::Nothing => Ok(Match::No),
        Located::Distributed => certain("a directory of torch.distributed.checkpoint"),
        Located::Zero => certain("a directory of DeepSpeed"),
        // Another format's model may be beside the ranks.
        Located::Apart(what, _) => Ok(Match::Possible(what.to_owned())),
        Located::Index(name) => match Index::read(&input.file(&name)?, input.limits()) {
            Ok(index) if index.is_ours() => certain("an index whose weight_map names files of PyTorch"),
            Ok(_) => Ok(Match::No),
            Err(error) if error.kind() == ckpt_api::Kind::Io => Err(error),
            Err(_) if name.ends_with(INDEX_ENDING) => {
                Ok(Match::Possible("is named like an index".to_owned()))
            }
            Err(_) => Ok(Match::No),
        },
        Located::File => probe_file(input, &input.main()?),
        Located::Parts(names) | Located::Ranks(names) => match names.first() {
            Some(name) => probe_file(input, &input.file(name)?),
            None => Ok(Match::No),
        },
    }
}

fn probe_file(input: &Input, file: &File) -> Result<Match> {
    let is_named = ENDINGS.iter().any(|ending| file.name().ends_with(&format!(".{ending}")));
    let is_pickle = file.len() >= 2 && matches!(file.bytes(0, 2)?[..], [0x80, 0..=5]);
    Ok(match container::kind(file)? {
        Some(Kind::Legacy) => Match::Certain("begins with the magic number of torch.save".to_owned()),
        Some(Kind::Tar) => Match::Certain("a tar archive of storages and tensors".to_owned()),
        Some(Kind::Zip) => match container::sign(file, input.limits())? {
            Sign::Checkpoint => Match::Certain("a zip archive with a data.pkl in its folder".to_owned()),
            Sign::Damaged if is_named => {
                Match::Possible("begins as a zip archive, and is named like one".to_owned())
            }
            Sign::Damaged | Sign::Other => Match::No,
        },
        None if is_pickle && is_named => Match::Possible("begins as a pickle does".to_owned()),
        None => Match::No,
    })
}

/// Memory that the tree of the pickle and the archive's directory take for each tensor: measured with 50,000 tensors.
const EACH_BYTES: u64 = 640;

/// See [`ckpt_api::Codec::read`].
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut rules = Rules::new(options);
    let root = options.text("root").filter(|root| !root.is_empty());
    let mut contents = match locate(input)? {
        Located::Zero | Located::Index(_) | Located::Parts(_) | Located::Ranks(_) if root.is_some() => {
            return Err(Error::usage("a set of files has no branches")
                .field("root")
                .help("name one of its files"));
        }
        Located::Apart(_, error) => return Err(error),
        Located::Distributed => distributed::read(input, root, &mut rules, limits)?,
        Located::Zero => zero::read(input, limits)?,
        Located::Index(name) => set::read(input, &name, &mut rules, limits)?,
        Located::Parts(names) => set::read_parts(input, &names, &mut rules, limits)?,
        Located::Ranks(names) => ranks::read(input, &names, &mut rules, limits)?,
        Located::Nothing | Located::File => {
            let mut contents = input
                .read_alone("a PyTorch checkpoint", |file| file::read(file, root, &mut rules, limits))?;
            let losses = part::losses(input, &contents);
            contents.losses.extend(losses);
            contents
        }
    };
    contents.losses.extend(weights_left_elsewhere(&contents.checkpoint.tensors));
    let bytes = EACH_BYTES * contents.placements.len() as u64;
    Ok(contents.with_repairs(rules.repairs).with_working_memory(bytes))
}

fn locate(input: &Input) -> Result<Located> {
    if distributed::is_distributed(input)? {
        return Ok(Located::Distributed);
    }
    if zero::is_zero(input)? {
        return Ok(Located::Zero);
    }
    if !input.is_directory() {
        let is_index = input.entry().ends_with(".json") && input.is_file();
        return Ok(match is_index {
            true => Located::Index(input.entry().to_owned()),
            false if input.is_file() => Located::File,
            false => Located::Nothing,
        });
    }
    let names = input.list("")?;
    let mut indexes = names.iter().filter(|name| name.ends_with(INDEX_ENDING));
    Ok(match (indexes.next(), indexes.next()) {
        (Some(index), None) => Located::Index(index.clone()),
        _ => {
            let is_ours = |name: &&String| ENDINGS.iter().any(|ending| name.ends_with(&format!(".{ending}")));
            let files: Vec<String> = names.iter().filter(is_ours).cloned().collect();
            match (PartSet::of(&files), ranks::set(&files)) {
                (Some(set), _) => Located::Parts(set.names.into_values().collect()),
                (None, Some(ranks)) => Located::Ranks(ranks),
                (None, None) => apart(input, &files)?,
            }
        }
    })
}

/// What a directory is whose files make no set: those of ranks that are not joined, or nothing.
fn apart(input: &Input, files: &[String]) -> Result<Located> {
    if let Some(names) = part::model_parallel(input, files) {
        let error = part::not_joined(input, &names);
        return Ok(Located::Apart("the ranks of a model-parallel model", error));
    }
    Ok(match ranks::unnamed(input, files)? {
        Some(error) => Located::Apart("files of the ranks of a sharded training", error),
        None => Located::Nothing,
    })
}
