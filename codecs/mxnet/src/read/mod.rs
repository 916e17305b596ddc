//! Reads the arrays of a file and their names, and the symbol beside it.

mod array;
mod parsed;
mod sparse;
mod symbol;

use crate::format::{ENDING, MAGIC, NAMESPACE, RESERVED};
use ckpt_api::{Contents, Input, Limits, Match, Options, Result};
pub(crate) use parsed::parse;

/// Recognizes a file by its first two numbers.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let head = [MAGIC, RESERVED].map(u64::to_le_bytes);
    let found = input.head::<16>()?.is_some_and(|found| found == head.as_flattened());
    Ok(match found {
        true => Match::Certain("begins as a list of arrays of MXNet does".to_owned()),
        false if input.entry().ends_with(ENDING) => {
            Match::Possible("has the extension of a file of MXNet".to_owned())
        }
        false => Match::No,
    })
}

/// Reads everything but the elements of dense arrays.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut structure = None;
    let mut contents = input.read_alone("a file of MXNet", |file| {
        let parsed = parse(file, limits)?;
        structure = parsed.structure(file, limits)?;
        Ok(parsed.contents)
    })?;
    symbol::read(&mut contents, input, options, limits)?;
    if let Some(structure) = structure {
        structure.keep(&mut contents.checkpoint.metadata, NAMESPACE);
    }
    Ok(contents)
}
