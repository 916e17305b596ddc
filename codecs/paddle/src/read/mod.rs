//! Reads pickles of arrays, and records that a program names.

mod pickle;
mod program;
mod records;
mod slices;
mod structure;
mod walk;

use crate::format::{OLD_RECORDS, OPTION_BF16, PICKLES, RECORDS};
use ckpt_api::{Contents, File, Input, Limits, Match, Options, Result};
pub(crate) use pickle::KEY_BF16;
pub(crate) use program::rename;

/// Recognizes a file.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let (file, name) = (input.main()?, input.entry());
    let is_pickle = pickle::begins_as_pickle(&file)?;
    if is_pickle && pickle::is_paddle(&file, is_named(name, &PICKLES), input.limits())? {
        return Ok(Match::Certain("a pickle of arrays, as paddle.save writes it".to_owned()));
    }
    if !is_pickle && records::begins_as_record(&file)? {
        return Ok(Match::Certain("begins as a record of a tensor of PaddlePaddle does".to_owned()));
    }
    Ok(match is_named(name, &PICKLES) || is_named(name, &[RECORDS, OLD_RECORDS]) {
        true => Match::Possible("is named like a file of PaddlePaddle".to_owned()),
        false => Match::No,
    })
}

/// Whether a name has one of these endings, in any case.
pub(crate) fn is_named(name: &str, endings: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Reads everything but the elements of arrays.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut form = Form::Records;
    let mut contents = input.read_alone("a file of PaddlePaddle", |file| {
        form = match is_named(input.entry(), &PICKLES) || pickle::begins_as_pickle(file)? {
            true => Form::Pickle { bf16: options.flag(OPTION_BF16) },
            false => Form::Records,
        };
        let mut contents = parse(file, form, limits)?;
        structure::keep(&mut contents, file, limits)?;
        Ok(contents)
    })?;
    if form == Form::Records {
        program::read(&mut contents, input, options, limits)?;
    }
    Ok(contents)
}

/// How a file stores its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In a pickle, where arrays of integers may be bf16.
    Pickle { bf16: bool },
    /// One after the other, without names.
    Records,
}

/// Reads the tensors of a file.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], with the place, for what Paddle does not read; [`ckpt_api::Kind::Unsupported`] for objects
/// that are no arrays.
pub(crate) fn parse(file: &File, form: Form, limits: &Limits) -> Result<Contents> {
    match form {
        Form::Pickle { bf16 } => pickle::read(file, bf16, limits),
        Form::Records => records::read(file, limits),
    }
}
