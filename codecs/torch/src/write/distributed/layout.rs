//! Where the archives are in the files of a directory.

use super::parts::{Part, Parts, Shard};
use crate::format::metadata::Location;
use crate::write::archive::{Archive, Sums};
use crate::write::file::FOLDER;
use crate::write::state_dict;
use ckpt_api::{Checksum, ChecksumAlgorithm, Error, Extent, FileId, Literal, Region, Result};
use ckpt_containers::zip::too_large;
use std::collections::HashMap;
use std::sync::Arc;

/// A chunk that has its place.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) region: Region,
    pub(super) at: Location,
    pub(super) extent: Extent,
}

/// Files that are laid out.
pub(super) struct Laid {
    /// Paths and lengths.
    pub(super) files: Vec<(String, u64)>,
    pub(super) literals: Vec<Literal>,
    pub(super) sums: Vec<Sums>,
    /// Where the parts are, in the order of the files.
    pub(super) locations: Vec<Location>,
    /// Where the objects are.
    pub(super) objects: Vec<Location>,
    /// The chunks of every tensor.
    pub(super) chunks: Vec<Vec<Placed>>,
}

/// Lays out files of these parts. A tie has the chunks of the first tensor with its storage.
pub(super) fn lay_out(parts: &Parts<'_>, shards: &[Shard]) -> Result<Laid> {
    let mut laid = Laid {
        files: Vec::with_capacity(shards.len()),
        literals: Vec::new(),
        sums: Vec::new(),
        locations: Vec::new(),
        objects: vec![Location::default(); parts.objects.len()],
        chunks: vec![Vec::new(); parts.tensors.len()],
    };
    for (number, shard) in shards.iter().enumerate() {
        let mut place = Place { file: FileId(number), path: shard.path.as_str().into(), end: 0 };
        for part in &shard.parts {
            match part {
                Part::Object(number) => laid.add_object(parts, *number, &mut place)?,
                Part::Chunk(number, region) => laid.add_chunk(parts, *number, region, &mut place)?,
            }
        }
        laid.files.push((shard.path.clone(), place.end));
    }
    laid.share(parts);
    Ok(laid)
}

/// The end of a file, where the next archive begins.
struct Place {
    file: FileId,
    path: Arc<str>,
    end: u64,
}

impl Laid {
    fn add_object(&mut self, parts: &Parts<'_>, number: usize, place: &mut Place) -> Result<()> {
        let pickle = parts.objects.get(number).map_or(&[][..], |object| &object.pickle[..]);
        let at = self.add(Archive::new(place.file, FOLDER, pickle)?, place)?;
        self.objects.get_mut(number).into_iter().for_each(|own| *own = at.clone());
        Ok(())
    }

    fn add_chunk(
        &mut self,
        parts: &Parts<'_>,
        number: usize,
        region: &Region,
        place: &mut Place,
    ) -> Result<()> {
        let no_tensor = || Error::defect("a chunk belongs to no tensor");
        let stored = parts.tensors.get(number).ok_or_else(no_tensor)?;
        let len = stored.stored_len(region.shape.elements()).ok_or_else(too_large)?;
        let pickle = state_dict::alone(&stored.item(&region.shape, 0, len));
        let mut archive = Archive::new(place.file, FOLDER, &pickle)?;
        let chunk = self.chunks.get(number).map_or(0, Vec::len);
        let within = archive.add_storage("0", len, (number, chunk), None)?;
        let at = self.add(archive, place)?;
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 0, value: None };
        let extent = Extent::new(place.file, at.offset.checked_add(within).ok_or_else(too_large)?, len)
            .with_region((region.shape != stored.tensor.shape).then(|| region.clone()))
            .with_checksum((len > 0).then_some(checksum));
        if len == 0 && stored.tensor.shape.elements() > 0 {
            return Ok(());
        }
        let chunks = self.chunks.get_mut(number).ok_or_else(no_tensor)?;
        chunks.push(Placed { region: region.clone(), at, extent });
        Ok(())
    }

    /// Adds an archive at the end of a file, and returns where it is.
    fn add(&mut self, archive: Archive, place: &mut Place) -> Result<Location> {
        let (len, literals, sums) = archive.finish()?;
        let start = place.end;
        place.end = start.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or_else(too_large)?;
        self.sums.push(sums.moved(start));
        self.literals.extend(
            literals
                .into_iter()
                .map(|literal| Literal { offset: literal.offset.saturating_add(start), ..literal }),
        );
        let at = Location { path: Arc::clone(&place.path), offset: start, len };
        self.locations.push(at.clone());
        Ok(at)
    }

    /// Gives ties the chunks of the first tensor with their storage.
    fn share(&mut self, parts: &Parts<'_>) {
        let mut first: HashMap<usize, usize> = HashMap::new();
        for (number, stored) in parts.tensors.iter().enumerate() {
            let first = *first.entry(stored.storage).or_insert(number);
            if first != number
                && let Some(shared) = self.chunks.get(first).cloned()
                && let Some(own) = self.chunks.get_mut(number)
            {
                *own = shared;
            }
        }
    }
}
