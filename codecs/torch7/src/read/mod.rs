//! Recognizes a file, and describes its tensors.

mod names;

pub(crate) use names::Named;

use crate::format::{axes, layer, role};
use crate::graph;
use ckpt_api::{
    Contents, Error, Input, Limits, Match, MissingGraph, Placement, Result, Tensor, TensorId, Viewed, count,
    first_few,
};
use ckpt_torch7_objects::{Mode, Object, Objects, View};
use names::NamedTensor;

/// Names that a note lists.
const SHOWN: usize = 6;
/// Certain if the first object has a class, or a key that is a text: nothing else marks a file.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let file = input.main()?;
    if let Some(first) = Objects::begins(&file, input.limits())? {
        return Ok(Match::Certain(format!("begins with {first}, as files of Torch7 do")));
    }
    Ok(match input.entry().ends_with(".t7") {
        true => Match::Possible("is named as a file of Torch7 is".to_owned()),
        false => Match::No,
    })
}

/// Reads everything but the elements.
pub(crate) fn read(input: &Input, limits: &Limits) -> Result<Contents> {
    input.read_alone("a file of Torch7", |file| {
        let (objects, mode) = Objects::read(file, limits)?;
        let named = names::of(&objects, limits)?;
        let mut contents = Contents::default();
        let mut viewed = Viewed::default();
        viewed.open(file.len(), objects.storages());
        for own in &named.tensors {
            let (tensor, placement) = described(&objects, own, TensorId(contents.placements.len()), limits)
                .map_err(|error| error.tensor(&own.name))?;
            viewed.add(&tensor).map_err(|error| error.tensor(&own.name))?;
            contents.checkpoint.tensors.push(tensor);
            contents.placements.push(placement);
        }
        contents.add_notes(notes(&named, mode));
        match graph::build(&objects, &named) {
            None => {}
            Some(Ok(graph)) => {
                contents.checkpoint.graph = Some(graph);
                contents.graph_notes.push(graph::NOTE.into());
            }
            Some(Err(reason)) => {
                let reason = reason.into();
                contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
            }
        }
        contents.checkpoint.metadata = named.metadata;
        Ok(contents)
    })
}

/// Describes a tensor, or a storage that is no tensor's.
fn described(
    objects: &Objects,
    own: &NamedTensor,
    id: TensorId,
    limits: &Limits,
) -> Result<(Tensor, Placement)> {
    let all;
    let (view, storage) = match objects.get(own.object) {
        Some(Object::Tensor(view, storage)) => (&**view, storage.and_then(|id| objects.storage(id))),
        Some(Object::Storage(storage)) => {
            all = View::of(storage)?;
            (&all, Some(&**storage))
        }
        _ => return Err(Error::defect("a tensor is none on second sight")),
    };
    let mut tensor = Tensor::new(own.name.clone(), view.dtype(), view.shape().clone());
    if let Some(layer) = own.owner.and_then(|id| objects.class(id)).and_then(layer) {
        tensor = tensor.with_role(role(&own.field));
        if let Some(axes) = axes(layer, &own.field, tensor.shape.rank()) {
            tensor = tensor.with_axes(axes);
        }
    }
    let placement = view.place(id, &tensor, storage, limits)?;
    Ok((tensor, placement))
}

/// What a person should know about the file.
fn notes(named: &Named, mode: Mode) -> Vec<String> {
    let mut notes = Vec::new();
    if mode == (Mode::Binary { long: 4 }) {
        notes.push("written where a long has 4 bytes, so that tensors of longs are of 32 bits".to_owned());
    }
    if !named.again.is_empty() {
        let names = named.again.iter();
        let names =
            names.map(|(name, first)| format!("{} (as {})", name.escape_debug(), first.escape_debug()));
        let again = count(named.again.len(), "object");
        notes.push(format!(
            "{again} that the file has again under another name listed under the first one alone: {}",
            first_few(names, SHOWN)
        ));
    }
    if !named.functions.is_empty() {
        let functions = count(named.functions.len(), "function");
        notes.push(format!(
            "{functions} of Lua left out, and not run: {}",
            first_few(&named.functions, SHOWN)
        ));
    }
    if named.hidden > 0 {
        let hidden = count(named.hidden, "value");
        notes.push(format!("{hidden} beside the tensors left out, whose names others have, too"));
    }
    if named.keys > 0 {
        let keys = count(named.keys, "key");
        notes.push(format!(
            "{keys} of tables that are objects left out; what is under each is called by its number"
        ));
    }
    notes
}
