//! Recognizes a model, and describes its blobs.

mod blob;
mod model;

pub(crate) use blob::Blob;
pub(crate) use model::Model;

use crate::format::{ID, NET};
use crate::graph;
use ckpt_api::{Contents, Error, File, Input, Kind, Limit, Limits, Match, MissingGraph, Options, Result};
use ckpt_containers::protobuf::Text;
use ckpt_containers::structure::Structure;
use std::sync::Arc;

/// The most bytes between the data of blobs that are kept, so that the model can be written again.
const MOST_KEPT: u64 = 64 << 20;
/// How often a byte that is kept is part of a name, with some room.
const TIMES_NAMED: u64 = 16;

/// Certain if the first layer has a name and a kind, as those of models have: nothing else marks them.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let file = input.main()?;
    Ok(match model::first_kind(&file, input.limits()) {
        Ok(Some(kind)) => Match::Certain(format!("begins with layers of Caffe, such as {kind}")),
        Err(error) if error.kind() == Kind::Io => return Err(error),
        _ if input.entry().ends_with(".caffemodel") => {
            Match::Possible("is named as a model of Caffe is".to_owned())
        }
        _ => Match::No,
    })
}

/// Reads everything but the data of blobs.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a model of Caffe", |file| {
        let model = Model::read(file, limits)?;
        let mut contents = model.describe()?;
        keep(&mut contents, file, &model)?;
        let Some((text, shown)) = net(input, options.text(NET), limits)? else {
            let help = "a .prototxt states the layers: put it beside the model under its name, or as deploy.prototxt";
            contents.add_notes([help]);
            return Ok(contents);
        };
        let parsed = Text::parse(&text, limits).map_err(|error| error.file(&shown))?;
        add_graph(&mut contents, &model, &parsed, file, &shown);
        contents.checkpoint.metadata.insert(ID, NET, text);
        Ok(contents)
    })
}

/// Reads a model that is to be written again, with the graph of a `.prototxt`.
pub(crate) fn read_back(structure: &Arc<Structure>, net: Option<&str>, name: &str) -> Result<Contents> {
    let file = File::new(structure.clone(), name)?;
    // It may have been read with a larger limit. Bytes that were not kept are zeros, of any number.
    let most = (structure.bytes.len() as u64).saturating_mul(TIMES_NAMED);
    let limits = Limits::default();
    let limits = limits.clone().with(Limit::HeaderBytes, most.max(limits.get(Limit::HeaderBytes)));
    let model = Model::read(&file, &limits)?;
    let mut contents = model.describe()?;
    if let Some(text) = net {
        let text = Text::parse(text, &limits)?;
        add_graph(&mut contents, &model, &text, &file, name);
    }
    Ok(contents)
}

fn add_graph(contents: &mut Contents, model: &Model, text: &Text, file: &File, shown: &str) {
    match graph::build(text, model, file) {
        Ok((graph, notes)) => {
            contents.checkpoint.graph = Some(graph);
            contents.graph_notes.extend(notes.into_iter().map(Into::into));
        }
        Err(reason) => {
            let reason = format!("{shown}: {reason}").into();
            contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
        }
    }
}

/// Keeps the bytes between the data of blobs, and the numbers that the graph is read with.
fn keep(contents: &mut Contents, file: &File, model: &Model) -> Result<()> {
    let Some(data) = model.data() else { return Ok(()) };
    let len = data.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    if file.len().saturating_sub(len) > MOST_KEPT {
        return Ok(());
    }
    let mut structure = Structure::of(file, data)?;
    for range in model.factors() {
        structure.add_small(range.start, file.bytes(range.start, range.end.saturating_sub(range.start))?);
    }
    structure.keep(&mut contents.checkpoint.metadata, ID);
    Ok(())
}

/// The text and the name of the `.prototxt`: the one that the option names, beside the model or by its path, the one with the
/// stem of the model, or `deploy.prototxt`.
fn net(input: &Input, named: Option<&str>, limits: &Limits) -> Result<Option<(String, String)>> {
    let file = match named {
        Some(name) if input.has_file(name) => input.file(name)?,
        Some(path) => Input::open(path).and_then(|input| input.main()).map_err(|error| error.field(NET))?,
        None => {
            let stem = input.entry().strip_suffix(".caffemodel").unwrap_or(input.entry());
            let names = [format!("{stem}.prototxt"), "deploy.prototxt".to_owned()];
            match names.iter().find(|name| *name != input.entry() && input.has_file(name)) {
                Some(name) => input.file(name)?,
                None => return Ok(None),
            }
        }
    };
    let shown = |error: Error| error.file(file.name());
    limits.check(Limit::TextBytes, file.len()).map_err(shown)?;
    let text = String::from_utf8(file.bytes(0, file.len())?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        shown(Error::corrupt("the .prototxt is not valid UTF-8").offset(at as u64))
    })?;
    Ok(Some((text, file.name().to_owned())))
}
