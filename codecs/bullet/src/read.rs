//! Reading: which files there are, what each of them contains, and where its tensors are.

mod applicable;
mod compare;
mod engine;
mod fit;
mod header;
mod probe;
mod propose;
mod reader;
mod records;
mod sections;
mod state;

pub(crate) use probe::probe;

use crate::format::{
    Content, ID, KEY_ARCHITECTURE, KEY_LOG, KEY_NETWORK, KEY_PARTS, LOG, PARAMS, QUANTISED, RAW, SLOTS,
    STATE, StateFile, WEIGHTS, padded,
};
use crate::net;
use crate::{graph, resolve};
use ckpt_api::{
    Contents, Error, File, Input, Limit, Limits, MetadataValue, MissingGraph, Options, Result, Setting, text,
};
use probe::base_name;
use reader::Reader;

/// The longest log that is kept, in bytes: a long training writes a line for every 32 batches.
const MAX_LOG: u64 = 16 << 20;

/// Reads everything but the numbers.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let architecture = resolve::for_reading(options)?;
    let architecture = header::with_header(architecture, input, options)?;
    let mut reader = Reader::new(input, options, limits, architecture.as_ref());
    match input.is_directory() {
        true => read_directory(&mut reader)?,
        false => read_file(&mut reader, options.text("content"))?,
    }
    applicable::check_options(&reader, options)?;
    finish(reader)
}

/// Reads the optimizer's weights if they exist, for only they are complete; or raw.bin; or quantised.bin.
fn read_directory(reader: &mut Reader<'_>) -> Result<()> {
    let state = find_state(reader.input)?;
    let has_raw = reader.input.has_file(RAW);
    let quantised = header::quantised(reader.input)?;
    let has_quantised = quantised.is_some();
    if let Some(name) = quantised.filter(|name| *name != QUANTISED) {
        reader.keep(KEY_NETWORK, name);
    }
    read_log(reader)?;
    if let Some((folder, weights)) = state {
        state::read_folder(reader, folder, weights)?;
    } else if has_raw {
        sections::read(reader, RAW, Content::Raw)?;
    } else if has_quantised {
        sections::read(reader, QUANTISED, Content::Quantised)?;
    } else {
        return Err(Error::usage("the directory is not a checkpoint of bullet")
            .file(reader.input.display(""))
            .expected(format!("{STATE}{}, {RAW} or {QUANTISED}", WEIGHTS.name)));
    }
    if has_raw && state.is_some() {
        sections::check_beside(reader, Content::Raw)?;
    }
    if has_quantised && (state.is_some() || has_raw) {
        sections::check_beside(reader, Content::Quantised)?;
    }
    if reader.compares && reader.parts.len() < 2 {
        return Err(nothing_to_compare(&reader.input.display("")));
    }
    Ok(())
}

/// Returns the folder of the optimizer's files, and the file of the weights in it.
fn find_state(input: &Input) -> Result<Option<(&'static str, StateFile)>> {
    let has = |folder: &str, state: StateFile| input.has_file(&format!("{folder}{}", state.name));
    let candidates = [STATE, ""].into_iter().flat_map(|folder| [(folder, WEIGHTS), (folder, PARAMS)]);
    let found = candidates.into_iter().find(|(folder, weights)| has(folder, *weights));
    let with_slots = [STATE, ""].into_iter().find(|folder| SLOTS.into_iter().any(|slot| has(folder, slot)));
    match (found, with_slots) {
        (None, Some(folder)) => Err(Error::corrupt("the optimizer's state is there, but not the weights")
            .file(input.display(&format!("{folder}{}", WEIGHTS.name)))
            .help("copy the whole folder again, or name raw.bin or quantised.bin itself")),
        _ => Ok(found),
    }
}

/// Keeps log.txt, the training's log, which some checkpoints have.
fn read_log(reader: &mut Reader<'_>) -> Result<()> {
    if !reader.input.has_file(LOG) {
        return Ok(());
    }
    let file = reader.input.file(LOG)?;
    let fits = file.len() <= MAX_LOG && reader.limits.check(Limit::HeaderBytes, file.len()).is_ok();
    let text = if fits { String::from_utf8(file.bytes(0, file.len())?).ok() } else { None };
    match text {
        Some(text) => reader.keep(KEY_LOG, text),
        None => reader.note(format!("{LOG} is not kept: it is too long or not UTF-8")),
    }
    Ok(())
}

fn read_file(reader: &mut Reader<'_>, content: Option<&str>) -> Result<()> {
    if reader.compares {
        return Err(nothing_to_compare(reader.input.entry()));
    }
    let name = reader.input.entry();
    let file = reader.input.main()?;
    let state = StateFile::from_name(base_name(name));
    let content = match (content.and_then(Content::from_name), base_name(name), state) {
        (Some(content), ..) => content,
        (None, RAW, _) => Content::Raw,
        (None, QUANTISED, _) => Content::Quantised,
        (None, _, Some(_)) => Content::State,
        (None, ..) if records::count(&file)?.is_some() => Content::State,
        (None, ..) => content_by_size(reader, &file)?,
    };
    match content {
        Content::State => state::read_file(reader, name, state.unwrap_or(WEIGHTS)),
        content => sections::read(reader, name, content),
    }
}

/// Recognizes a file by the size that the architecture gives it.
fn content_by_size(reader: &Reader<'_>, file: &File) -> Result<Content> {
    let architecture = reader.architecture.ok_or_else(|| fit::needs_architecture(file))?;
    let size = |content| Ok::<u64, Error>(net::sections::sections(architecture, content)?.end);
    let mut sizes = vec![
        (Content::Raw, RAW, size(Content::Raw)?),
        (Content::Quantised, QUANTISED, padded(size(Content::Quantised)?)),
    ];
    if architecture.net.engine.is_some() {
        sizes.push((Content::Engine, "engine file", size(Content::Engine)?));
    }
    let fitting: Vec<_> = sizes.iter().filter(|(.., size)| *size == file.len()).collect();
    let found = ckpt_api::count(file.len(), "byte");
    let help = "name the content with the option content";
    match fitting[..] {
        [(content, ..)] => Ok(*content),
        [] => {
            let expected: Vec<_> =
                sizes.iter().map(|(_, what, size)| format!("{size} bytes for a {what}")).collect();
            Err(fit::does_not_fit(file).found(found).expected(expected.join(", or ")).help(help))
        }
        _ => {
            let names: Vec<_> = fitting.iter().map(|(_, what, _)| *what).collect();
            let message = format!("by its size, the file can be any of {}", names.join(", "));
            Err(Error::usage(message).file(file.name()).found(found).help(help))
        }
    }
}

/// Adds what describes the checkpoint as a whole.
fn finish(reader: Reader<'_>) -> Result<Contents> {
    let Reader { mut contents, architecture, mut parts, keeps_integers, limits, .. } = reader;
    limits.check(Limit::Tensors, contents.checkpoint.tensors.len() as u64)?;
    parts.sort_unstable();
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    contents.checkpoint.metadata.insert(ID, KEY_PARTS, names);
    match architecture {
        Some(architecture) => {
            match graph::build(architecture, &contents.checkpoint) {
                Ok(graph) if !keeps_integers => contents.checkpoint.graph = Some(graph),
                Ok(_) => {
                    contents.missing_graph = Some(MissingGraph {
                        reason: "integers=true keeps the integers".into(),
                        is_unstated: false,
                        help: Some(text!["leave out ", Setting::READ_OPTION.of("integers=true")]),
                    });
                }
                Err(reason) => {
                    contents.missing_graph =
                        Some(MissingGraph { reason: reason.into(), is_unstated: false, help: None });
                }
            }
            let document: MetadataValue = architecture.to_file()?.parse()?;
            contents.checkpoint.metadata.insert(ID, KEY_ARCHITECTURE, document);
        }
        None => {
            contents.missing_graph = Some(propose::missing_graph());
            contents.add_notes(propose::propose(&contents.checkpoint.tensors));
        }
    }
    Ok(contents)
}

fn nothing_to_compare(name: &str) -> Error {
    Error::usage("there is nothing to compare")
        .file(name)
        .field("check")
        .expected(format!("a directory with {RAW} or {QUANTISED} beside other files"))
}
