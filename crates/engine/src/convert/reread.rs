//! What was written, read back through the target's own codec.

use super::{Commit, Planned};
use crate::plan::TensorEntry;
use crate::source::{OpenOptions, Source};
use ckpt_api::{Error, Extent, Input, Kind, Match, ReadStore, Reading, Result, Side, TensorId, text};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The parts of a result that are read on their own, and where each tensor of the plan is in them.
pub(super) struct Reread {
    pub(super) parts: Vec<Source>,
    /// Parallel to the plan's tensors: which part, and which of its tensors.
    found: Vec<(usize, TensorId)>,
}

impl Reread {
    /// Reads what the files of the output hold, which are complete.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] if the codec does not find in it what was written, [`ckpt_api::Kind::Mismatch`]
    /// where it cannot read it.
    pub(super) fn open(planned: &Planned, files: &Arc<dyn ReadStore>, commit: &Commit) -> Result<Self> {
        if planned.codec.info().reads.is_empty() {
            return Err(Error::unsupported("a format that cannot be read cannot be verified")
                .found(format!("format '{}', which can only be written", planned.codec.info().id)));
        }
        let readings = readings(planned, files)?;
        let parts = readings.iter().map(|reading| open(planned, reading, files, commit).map_err(unreadable));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let found = find(planned, &readings, &parts)?;
        Ok(Reread { parts, found })
    }

    /// What the tensor with this number in the plan became.
    pub(super) fn tensor(&self, number: usize) -> Option<(&Source, TensorId)> {
        let (part, id) = self.found.get(number)?;
        Some((self.parts.get(*part)?, *id))
    }
}

/// The error if its own reader rejects what was written. A read that fails says nothing about it.
fn unreadable(error: Error) -> Error {
    if error.kind() == Kind::Io {
        return error;
    }
    let found = text![format!("{}: ", error.kind()), error.quoted()];
    Error::mismatch("the output cannot be read back")
        .found(found)
        .help("nothing was kept; the codec or the disk is faulty: please report it")
}

/// What the codec states, or else what its user would name.
fn readings(planned: &Planned, files: &Arc<dyn ReadStore>) -> Result<Vec<Reading>> {
    if !planned.plan.placed.readings.is_empty() {
        return Ok(planned.plan.placed.readings.clone());
    }
    let info = planned.codec.info();
    let specs = info.options.iter().filter(|spec| spec.side == Side::Both);
    let both: Vec<&str> = specs.map(|spec| spec.name).collect();
    let target = &planned.plan.target;
    let given = target.options.iter();
    let options: Vec<_> = given.filter(|(key, _)| both.contains(&key.as_str())).cloned().collect();
    // An output's name may be the beginning of its files' names; the last file is the one that leads to the others.
    let last = planned.plan.placed.files.last().map(|file| file.name.as_str());
    for entry in [planned.output.name.as_str()].into_iter().chain(last) {
        let input = Input::within_store(files.clone(), entry);
        if !matches!(planned.codec.probe(&input)?, Match::No) {
            let architecture = target.architecture.clone();
            return Ok(vec![Reading { entry: entry.to_owned(), options, architecture }]);
        }
    }
    Err(Error::defect("the output is not recognized as its own format")
        .file(planned.output.store.display(&planned.output.name))
        .expected(info.title)
        .help("the format's codec has a bug: please report it"))
}

fn open(planned: &Planned, reading: &Reading, files: &Arc<dyn ReadStore>, commit: &Commit) -> Result<Source> {
    let input = Input::within_store(files.clone(), &reading.entry);
    let options = OpenOptions {
        format: Some(planned.codec.info().id.to_owned()),
        options: reading.options.clone(),
        architecture: reading.architecture.clone(),
        graph: None,
        inputs: Vec::new(),
        graph_mapping: None,
        // What was written is compared, whatever it stands for.
        parts: true,
        limits: commit.limits.clone(),
        vocabulary: commit.vocabulary.clone(),
    };
    Source::read_as(&planned.registry, planned.codec.clone(), input, options)
}

/// File, offset and length of every stored piece, in that order.
type Place<'a> = Vec<(String, u64, u64)>;

/// Finds every tensor of the plan by where its bytes are; one without bytes by its name, or because it is the only one; one
/// whose bytes are decoded by its name, since they are stored beside others such as lengths.
fn find(planned: &Planned, readings: &[Reading], parts: &[Source]) -> Result<Vec<(usize, TensorId)>> {
    let mut at: HashMap<Place, (usize, TensorId)> = HashMap::new();
    let mut tied: HashMap<&str, (Place, (usize, TensorId))> = HashMap::new();
    let mut named: HashMap<&str, (usize, TensorId)> = HashMap::new();
    let mut decoded: HashMap<&str, (usize, TensorId)> = HashMap::new();
    let mut bare = Vec::new();
    for (number, (part, reading)) in parts.iter().zip(readings).enumerate() {
        let folder = if part.input().is_directory() { format!("{}/", reading.entry) } else { String::new() };
        for placement in &part.contents().placements {
            let name = |extent: &Extent| {
                let file = part.contents().files.get(extent.file.0).map_or("", String::as_str);
                format!("{folder}{file}")
            };
            let place = place(&placement.extents, name);
            if place.is_empty() {
                bare.push((number, placement.tensor));
            }
            match at.entry(place) {
                Entry::Vacant(entry) => drop(entry.insert((number, placement.tensor))),
                Entry::Occupied(entry) => {
                    tied.insert(&placement.name, (entry.key().clone(), (number, placement.tensor)));
                }
            }
            named.entry(placement.name.as_str()).or_insert((number, placement.tensor));
            if placement.extents.iter().any(|extent| extent.compression().is_some()) {
                decoded.entry(placement.name.as_str()).or_insert((number, placement.tensor));
            }
        }
    }
    let files = &planned.plan.placed.files;
    let name = |extent: &Extent| files.get(extent.file.0).map_or("", |file| file.name.as_str()).to_owned();
    // A single array has its file's name, which is another one here.
    let without = planned.plan.tensors().filter(|entry| place(&entry.to.extents, name).is_empty()).count();
    let alone = if let ([only], 1) = (&bare[..], without) { Some(only) } else { None };
    let find = |entry: TensorEntry<'_>| {
        let place = place(&entry.to.extents, name);
        let found = match place.is_empty() {
            true => named.get(entry.to.name.as_str()).or(alone),
            // Ties are at one place.
            false => match tied.get(entry.to.name.as_str()) {
                Some((other, tensor)) if *other == place => Some(tensor),
                _ => at.get(&place).or_else(|| decoded.get(entry.to.name.as_str())),
            },
        };
        found.copied().ok_or_else(|| missing(&entry, named.contains_key(entry.to.name.as_str()), &place))
    };
    planned.plan.tensors().map(find).collect()
}

fn place<'a>(extents: &[Extent], name: impl Fn(&Extent) -> String) -> Place<'a> {
    let stored = extents.iter().filter(|extent| extent.len > 0);
    let mut place: Place = stored.map(|extent| (name(extent), extent.offset, extent.len)).collect();
    place.sort_unstable();
    place
}

fn missing(entry: &TensorEntry<'_>, elsewhere: bool, place: &Place) -> Error {
    let error = Error::defect("a tensor is not where the conversion wrote it")
        .tensor(entry.tensor)
        .found(if elsewhere { "a tensor of this name at another place" } else { "no tensor at this place" })
        .help("nothing was kept; the format's codec has a bug: please report it");
    match place.first() {
        Some((file, offset, len)) => {
            error.file(file.as_str()).offset(*offset).expected(format!("{len} bytes of '{}'", entry.to.name))
        }
        None => error.expected(format!("'{}', which has no bytes", entry.to.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_fails_while_the_output_is_read_back_is_no_difference_of_checkpoints() {
        let failed = Error::io("cannot read the file", std::io::ErrorKind::Other.into()).file("m.nn");
        let told = unreadable(failed);
        assert_eq!((told.kind(), told.context().file), (Kind::Io, Some("m.nn")));
        assert_eq!(unreadable(Error::corrupt("cut short")).kind(), Kind::Mismatch);
    }
}
