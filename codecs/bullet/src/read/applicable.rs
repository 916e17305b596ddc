//! Refuses options that have no effect on what was read: the user expects one.

use super::reader::Reader;
use crate::format::{Content, QUANTISED};
use ckpt_api::{Error, Options, Result};

/// Checks that every option that was given applies to what was read.
pub(super) fn check_options(reader: &Reader<'_>, options: &Options) -> Result<()> {
    let is_directory = reader.input.is_directory();
    let has_state = reader.parts.contains(&Content::State);
    let is_given = |name| options.text(name).is_some();
    let integers = "quantised.bin or an engine file, with entries of integers";
    let rules = [
        ("integers", options.flag("integers"), reader.has_integers, integers),
        (
            "header",
            is_given("header"),
            reader.parts.contains(&Content::Quantised),
            "quantised.bin, whose entries the architecture describes",
        ),
        ("content", is_given("content"), !is_directory, "a single file"),
        ("records", is_given("records"), has_state, "the optimizer's files"),
        (
            "optimiser",
            is_given("optimiser"),
            has_state && is_directory,
            "a directory with the optimizer's files",
        ),
    ];
    let idle = rules.into_iter().find(|(_, is_given, applies, _)| *is_given && !applies);
    let Some((name, .., expected)) = idle else { return Ok(()) };
    let names_another = match name {
        "integers" => reader.input.has_file(QUANTISED),
        _ => name == "content",
    };
    let first = reader.contents.files.first().map_or("", String::as_str);
    Err(Error::usage("the option has no effect on what is read")
        .file(reader.input.display(reader.input.entry()))
        .field(name)
        .found(format!("tensors from {first}"))
        .expected(expected)
        .help(match is_directory && names_another {
            true => "name the file itself instead of the directory, or leave the option out",
            false => "leave the option out",
        }))
}
