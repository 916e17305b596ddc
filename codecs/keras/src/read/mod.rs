//! Reads a model's files: their configuration, and where their tensors are.

mod adopt;
mod describe;
mod files;
mod index;
mod optimizer;
mod part;
mod tensors;
mod variables;

pub(crate) use files::Files;
pub(crate) use part::Part;
pub(crate) use tensors::read_files;
pub(crate) use variables::parent;

use crate::format::{ARCHIVE_END, CONFIG, DTYPE, H5_ENDS, INDEX_END, OPAQUE, WEIGHTS, WEIGHTS_END};
use crate::write::kept;
use adopt::Adoption;
use ckpt_api::{Contents, Input, Kind, Limits, Loss, LossKind, Match, Options, Result, Rules};
use ckpt_containers::zip::{self, record};

/// Bytes of the longest user block before the signature of a file with another format's name: more than any program is known
/// to write, and within what a store far away sends at once.
const NEAR: u64 = 32 << 10;

/// Recognizes HDF5 files, archives and directories with weights of Keras, and indexes of such files.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if input.is_directory() {
        let has_both = input.has_file(WEIGHTS) && input.has_file(CONFIG);
        return Ok(match has_both && ckpt_hdf5::is_hdf5(&input.file(WEIGHTS)?, u64::MAX)? {
            true => Match::Certain(format!("a directory with {CONFIG} and {WEIGHTS}")),
            false => Match::No,
        });
    }
    if !input.is_file() {
        return Ok(Match::No);
    }
    let file = input.main()?;
    if input.entry().ends_with(INDEX_END) {
        return Ok(match index::Index::read(&file, input.limits()) {
            Ok(_) => Match::Certain("an index of files of Keras weights".to_owned()),
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Err(_) => Match::Possible(format!("its name ends in {INDEX_END}")),
        });
    }
    if input.head()?.is_some_and(|head| [record::LOCAL, record::END].contains(&head)) {
        return probe_archive(input, &file);
    }
    let is_named = H5_ENDS.iter().any(|end| input.entry().ends_with(end));
    Ok(match ckpt_hdf5::is_hdf5(&file, if is_named { u64::MAX } else { NEAR })? {
        true => Match::Certain("has the signature of an HDF5 file".to_owned()),
        false => Match::No,
    })
}

fn probe_archive(input: &Input, file: &ckpt_api::File) -> Result<Match> {
    match zip::has_any_text(file, input.limits(), &[CONFIG, WEIGHTS])
        .and_then(|is_possible| is_possible.then(|| zip::entries(file, input.limits())).transpose())
    {
        Ok(None) => Ok(Match::No),
        Ok(Some((entries, _))) => {
            let has = |name: &str| entries.iter().any(|entry| entry.name == name);
            Ok(match has(CONFIG) || has(WEIGHTS) {
                true => Match::Certain(format!("a zip archive with {CONFIG} or {WEIGHTS}")),
                false => Match::No,
            })
        }
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) if input.entry().ends_with(ARCHIVE_END) => {
            Ok(Match::Possible(format!("a damaged zip archive, whose name ends in {ARCHIVE_END}")))
        }
        Err(_) => Ok(Match::No),
    }
}

/// Memory that the files' own structures take for each tensor, and its second description where the files are laid out again
/// to see whether they come back as they were: measured with 50,000 tensors.
const EACH_BYTES: u64 = 1280;

/// Reads everything but the tensors' elements.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut files = Files::open(input, limits, true)?;
    let chosen = options.text(DTYPE).and_then(|name| OPAQUE.iter().find(|(_, own)| *own == name));
    let chosen = chosen.map(|(dtype, _)| *dtype);
    let mut misfit = None;
    if let Some(model) = options.model().filter(|_| files.config.is_none()) {
        match adopt::adopt(&mut files, model, chosen, options, limits)? {
            Adoption::Fits(contents) => {
                let bytes = EACH_BYTES * contents.placements.len() as u64;
                return Ok(contents.with_working_memory(bytes));
            }
            Adoption::Differs(found) => misfit = found,
        }
    }
    let mut rules = Rules::new(options);
    let mut contents = read_files(&files, chosen, &mut rules, limits)?;
    kept::keep(&files, input, &mut contents, limits)?;
    contents.repairs = rules.repairs;
    contents.misfit = misfit;
    contents.losses.extend(part_of_set(input, limits));
    let bytes = EACH_BYTES * contents.placements.len() as u64;
    Ok(contents.with_working_memory(bytes))
}

/// The loss of reading one of the files that Keras divides large weights into, `m_00001.weights.h5` beside the index
/// `m.weights.json`; `None` if the index states that there is no other.
fn part_of_set(input: &Input, limits: &Limits) -> Option<Loss> {
    const DIGITS: usize = 5;
    let name = input.entry();
    let (stem, number) = name.strip_suffix(WEIGHTS_END)?.rsplit_once('_')?;
    let is_number = number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<usize>().ok().filter(|_| is_number)?;
    let index_name = format!("{stem}{INDEX_END}");
    let index = input.file(&index_name).and_then(|file| index::Index::read(&file, limits)).ok();
    let count = index.as_ref().map(|index| index.groups.len());
    if count == Some(1) {
        return None;
    }
    let of = count.map_or("several".to_owned(), |count| count.to_string());
    let detail = format!("part {} of {of} of a model's weights; name its index, '{index_name}'", number + 1);
    Some(Loss::new(LossKind::Partial, name, detail))
}
