//! The layout of an output: what a codec returns to write it.

use crate::layout::check_fit;
use crate::{
    ArchitectureFile, Aspect, Checkpoint, Error, FileId, FinishState, Loss, LossKind, MostlyOne, Placement,
    Result, Tensor, TensorId, Ties,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Zeros for each byte that is written: optimizers keep a few values for each weight, of which all may be missing.
const MOST_ZEROS: u64 = 16;
/// Bytes between two pieces: formats align large tensors to so many.
const MOST_PADDING: u64 = 1 << 16;
/// Zeros of any output.
const ANY_ZEROS: u64 = 64 << 20;

/// Where everything goes: the result of [`crate::Codec::place`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLayout {
    /// The files that will exist, in the order in which they get their final names: the one that makes the
    /// others findable (an index) last.
    pub files: Vec<OutputFile>,
    /// Header and padding bytes known before any tensor is read. Blocks and extents never overlap; bytes that
    /// neither covers are zero.
    pub literals: Vec<Literal>,
    /// Where tensors go. A tensor without a placement is lost: the engine declares that.
    pub placements: Vec<Placement>,
    /// Losses that only the codec knows, and those that it can explain better than the engine.
    pub losses: Vec<Loss>,
    /// Losses that an option asks for by name, such as one that names the type of tensors: they are listed, and do not stop a
    /// conversion.
    pub asked: Vec<LossKind>,
    /// What the format keeps ([`crate::FormatInfo::keeps`]) and this output does not, each with the reason.
    pub left_out: BTreeMap<Aspect, String>,
    /// Tensors whose numbers are whole units of the scale that they are stored with, by what the codec knows of them:
    /// storing them as integers loses nothing.
    pub whole_units: Vec<TensorId>,
    /// What [`crate::Codec::finish`] needs beside the placements: an index that lacks only its checksums.
    pub finish: FinishState,
    /// How the result is read back, if the output's name is not enough: one for each part that is read on its
    /// own. Empty if it does.
    pub readings: Vec<Reading>,
    /// Bytes of memory that placing took beside all this, if it is much: several hundred for each tensor. The engine counts
    /// them among what a conversion needs.
    pub working_memory: u64,
}

/// How a result, or a part of it, is read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What a user would name, relative to the output's directory: a file, a directory, or a prefix of files.
    pub entry: String,
    /// Options for reading.
    pub options: Vec<(String, String)>,
    /// An architecture file of the codec's own.
    pub architecture: Option<ArchitectureFile>,
}

impl OutputLayout {
    /// Checks what the engine relies on: names of files stay below the output's directory and are unique; placements
    /// fit their tensors; no two pieces overlap or are outside their file, but for tied tensors that share all their
    /// extents.
    ///
    /// # Errors
    /// [`crate::Kind::Defect`]: the codec is wrong, not the input.
    pub fn check(&self, checkpoint: &Checkpoint) -> Result<()> {
        self.check_files()?;
        self.check_tensors(checkpoint)?;
        self.check_pieces(&self.shared(&checkpoint.ties))
    }

    fn check_files(&self) -> Result<()> {
        let mut names = HashSet::with_capacity(self.files.len());
        for file in &self.files {
            if crate::io::checked(&file.name).is_err() {
                return Err(defect("an output file lies outside the output's directory").file(&file.name));
            }
            if !names.insert(file.name.as_str()) {
                return Err(defect("two output files have the same name").file(&file.name));
            }
        }
        Ok(())
    }

    /// The tensors that are neither placed nor added to another, which are lost.
    pub fn unplaced<'a>(
        &self,
        checkpoint: &'a Checkpoint,
    ) -> impl Iterator<Item = (TensorId, &'a Tensor)> + use<'a> {
        let mut placed = vec![false; checkpoint.tensors.len()];
        for placement in &self.placements {
            for id in placement.added().iter().map(|added| added.tensor).chain([placement.tensor]) {
                if let Some(placed) = placed.get_mut(id.0) {
                    *placed = true;
                }
            }
        }
        let tensors = checkpoint.tensors.iter().zip(placed).enumerate();
        tensors.filter(|(_, (_, placed))| !placed).map(|(id, (tensor, _))| (TensorId(id), tensor))
    }

    /// From the number of each placement that has the extents of an earlier one, because their tensors are ties, or the
    /// same bytes of another dtype or shape that are stored as they are, to that of the earlier one. Their bytes are written once.
    pub fn shared(&self, ties: &Ties) -> BTreeMap<usize, usize> {
        let mut shared = BTreeMap::new();
        if ties.is_empty() {
            return shared;
        }
        let mut seen = HashMap::with_capacity(self.placements.len());
        for (number, placement) in self.placements.iter().enumerate() {
            let Placement { tensor, extents, encoding, .. } = placement;
            if !placement.added().is_empty() || extents.iter().all(|extent| extent.len == 0) {
                continue;
            }
            let key = match ties.viewed(*tensor) {
                Some((first, dtype)) if placement.is_plain(dtype) => (first, extents, None),
                _ => (ties.first_of(*tensor), extents, Some(encoding)),
            };
            let (earlier, other) = *seen.entry(key).or_insert((number, *tensor));
            if other != *tensor {
                shared.insert(number, earlier);
            }
        }
        shared
    }

    fn check_tensors(&self, checkpoint: &Checkpoint) -> Result<()> {
        // A tensor that is placed once has one name: then no set of many thousand names is made.
        let mut is_placed = vec![false; checkpoint.tensors.len()];
        let mut is_new = |placement: &Placement| {
            is_placed.get_mut(placement.tensor.0).is_none_or(|is_placed| !std::mem::replace(is_placed, true))
        };
        let is_repeated = !self.placements.iter().all(&mut is_new);
        let mut names = HashSet::new();
        for placement in &self.placements {
            let id = placement.tensor.0;
            let Some(tensor) = checkpoint.tensors.get(id) else {
                return Err(defect("a tensor is placed that does not exist").tensor(&placement.name));
            };
            let file = placement.extents.first().map(|extent| extent.file);
            if is_repeated && !names.insert((id, file, placement.name.as_str())) {
                return Err(defect("a tensor is stored twice under one name").tensor(&tensor.name));
            }
            check_added(checkpoint, tensor, placement)?;
            if placement.window().is_some() {
                return Err(defect("only a source tensor can be a part of a larger one").tensor(&tensor.name));
            }
            if placement.extents.iter().any(|extent| extent.compression().is_some() || extent.is_computed()) {
                return Err(defect("a tensor's placement is compressed").tensor(&tensor.name));
            }
            check_fit(tensor, placement).map_err(|error| {
                defect("a tensor's placement does not fit it").tensor(&tensor.name).found(error.quoted())
            })?;
        }
        Ok(())
    }

    fn check_pieces(&self, shared: &BTreeMap<usize, usize>) -> Result<()> {
        let literals =
            self.literals.iter().map(|literal| (literal.file, literal.offset, literal.bytes.len() as u64));
        let alone = self.placements.iter().enumerate().filter(|(number, _)| !shared.contains_key(number));
        let extents = alone.flat_map(|(_, placement)| &placement.extents);
        let extents = extents.map(|extent| (extent.file, extent.offset, extent.len));
        let mut pieces: Vec<(FileId, u64, u64)> = literals.chain(extents).collect();
        pieces.sort_unstable();
        let mut before = None;
        for (id, start, len) in pieces {
            let Some(file) = self.files.get(id.0) else {
                return Err(defect("bytes go to a file that does not exist").found(id.0.to_string()));
            };
            let outside =
                |error: Error| error.file(&file.name).offset(start).found(crate::count(len, "byte"));
            let end = start.checked_add(len).filter(|end| file.len.is_none_or(|len| *end <= len));
            let end = end.ok_or_else(|| outside(defect("bytes lie outside their file")))?;
            if len > 0 {
                if before.is_some_and(|(other, end)| other == id && end > start) {
                    return Err(outside(defect("two pieces of a file overlap")));
                }
                before = Some((id, end));
            }
        }
        Ok(())
    }

    /// Checks that the files are about as long as what is written to them. Bytes that nothing is written to are zeros: those
    /// between aligned tensors, or a weight that the source lacks; a header that states a far longer file would make it of
    /// little else.
    ///
    /// # Errors
    /// [`crate::Kind::Limit`] for files of known length with more than 16 such bytes for each one that is written, 64 KiB for
    /// each piece, and 64 MiB.
    pub fn check_cover(&self) -> Result<()> {
        let len = self.files.iter().filter_map(|file| file.len).fold(0, u64::saturating_add);
        let literals = self.literals.iter().map(|literal| literal.bytes.len() as u64);
        let extents = self.placements.iter().flat_map(|placement| &placement.extents);
        let (mut written, mut pieces) = (0u64, 0u64);
        for piece in literals.chain(extents.map(|extent| extent.len)) {
            (written, pieces) = (written.saturating_add(piece), pieces.saturating_add(1));
        }
        let padding = pieces.saturating_mul(MOST_PADDING).saturating_add(ANY_ZEROS);
        let most = written.saturating_mul(MOST_ZEROS + 1).saturating_add(padding);
        if len <= most {
            return Ok(());
        }
        let found = crate::count(len.saturating_sub(written), "byte");
        let longest = self.files.iter().max_by_key(|file| file.len);
        let error = Error::limit("the output would consist of bytes that nothing is written to");
        let error = error.file(longest.map_or("", |file| &file.name));
        Err(error.found(found).expected(format!("at most {}", most.saturating_sub(written))))
    }

    /// The same with these files.
    #[must_use]
    pub fn with_files(mut self, files: Vec<OutputFile>) -> Self {
        self.files = files;
        self
    }

    /// The same with these literals.
    #[must_use]
    pub fn with_literals(mut self, literals: Vec<Literal>) -> Self {
        self.literals = literals;
        self
    }

    /// The same with these placements.
    #[must_use]
    pub fn with_placements(mut self, placements: Vec<Placement>) -> Self {
        self.placements = placements;
        self
    }

    /// The same with these losses.
    #[must_use]
    pub fn with_losses(mut self, losses: Vec<Loss>) -> Self {
        self.losses = losses;
        self
    }

    /// What the format keeps and this output does not, each with the reason. Default: nothing.
    #[must_use]
    pub fn with_left_out(mut self, left_out: BTreeMap<Aspect, String>) -> Self {
        self.left_out = left_out;
        self
    }

    /// Tensors whose numbers are whole units of the scale that they are stored with. Default: none.
    #[must_use]
    pub fn with_whole_units(mut self, whole_units: Vec<TensorId>) -> Self {
        self.whole_units = whole_units;
        self
    }

    /// The same with this state for finishing.
    #[must_use]
    pub fn with_finish(mut self, finish: FinishState) -> Self {
        self.finish = finish;
        self
    }

    /// The same with losses that an option asks for by name. Default: none.
    #[must_use]
    pub fn with_asked(mut self, kinds: &[LossKind]) -> Self {
        self.asked.extend(kinds);
        self
    }

    /// The same with the memory that placing took beside the result, in bytes. Default: 0.
    #[must_use]
    pub fn with_working_memory(mut self, bytes: u64) -> Self {
        self.working_memory = bytes;
        self
    }

    /// The same with these readings.
    #[must_use]
    pub fn with_readings(mut self, readings: Vec<Reading>) -> Self {
        self.readings = readings;
        self
    }
}

fn check_added(checkpoint: &Checkpoint, tensor: &Tensor, placement: &Placement) -> Result<()> {
    for added in placement.added() {
        let unfit = || defect("what is added to a tensor does not fit it").tensor(&tensor.name);
        let Some(other) = checkpoint.tensors.get(added.tensor.0) else {
            return Err(defect("a tensor is added that does not exist").tensor(&tensor.name));
        };
        if !added.fits(tensor, other) {
            return Err(unfit().found(format!("{:?} of '{}'", added.axes, other.name)));
        }
    }
    Ok(())
}

fn defect(message: &str) -> Error {
    Error::defect(message).help("the target's codec has a bug: please report it")
}

/// One file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputFile {
    /// Path relative to the directory of the output, with `/`; never absolute, never with `..`.
    pub name: String,
    /// Bytes; `None` if only [`crate::Codec::finish`] knows.
    pub len: Option<u64>,
}

impl OutputFile {
    /// A file of `len` bytes.
    pub fn new(name: impl Into<String>, len: u64) -> Self {
        OutputFile { name: name.into(), len: Some(len) }
    }

    /// A file whose length [`crate::Codec::finish`] decides.
    pub fn of_unknown_length(name: impl Into<String>) -> Self {
        OutputFile { name: name.into(), len: None }
    }
}

/// Literal bytes at a place in a file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Literal {
    /// Which file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// The bytes.
    #[serde(rename = "base64", with = "crate::base64_text")]
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Literal { file, offset, bytes } = self;
        write!(f, "Literal {{ file: {}, offset: {offset}, {} bytes }}", file.0, bytes.len())
    }
}

/// What was written for one placement, for [`crate::Codec::finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// For each extent the checksum it asked for, as the format would store it.
    pub checksums: MostlyOne<Option<u32>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Added, AddedAxis, DType, Encoding, Extent, Shape, Tensor, TensorId};

    fn checkpoint() -> Checkpoint {
        let tensor = Tensor::new("w", DType::F32, Shape::new(vec![2]).unwrap());
        Checkpoint { tensors: vec![tensor], ..Checkpoint::default() }
    }

    fn placed() -> OutputLayout {
        let extent = Extent::new(FileId(0), 4, 8);
        let encoding = Encoding::row_major(&checkpoint().tensors[0]);
        OutputLayout {
            files: vec![OutputFile { name: "sub/f".into(), len: Some(12) }],
            literals: vec![Literal { file: FileId(0), offset: 0, bytes: b"head".to_vec() }],
            placements: vec![Placement::new(TensorId(0), "w", vec![extent], encoding)],
            ..OutputLayout::default()
        }
    }

    fn added(tensor: usize, axes: &[AddedAxis]) -> Added {
        Added { tensor: TensorId(tensor), axes: axes.to_vec() }
    }

    #[test]
    fn a_tensor_may_be_stored_several_times_and_added_to_another() {
        let mut placed = placed();
        placed.placements[0].set_added(vec![added(0, &[AddedAxis::Along(0)])]);
        let mut again = placed.placements[0].clone();
        (again.name, again.extents[0].offset) = ("again".into(), 12);
        (placed.files[0].len, placed.placements) = (Some(20), vec![placed.placements[0].clone(), again]);
        placed.check(&checkpoint()).unwrap();
    }

    #[test]
    fn a_defect_of_a_codec_is_found_before_anything_is_written() {
        type Damage = fn(&mut OutputLayout);
        let defects: &[(&str, Damage)] = &[
            ("outside the output's directory", |p| p.files[0].name = "../f".into()),
            ("outside the output's directory", |p| p.files[0].name = "/f".into()),
            ("same name", |p| p.files.push(p.files[0].clone())),
            ("does not exist", |p| p.placements[0].tensor = TensorId(1)),
            ("twice under one name", |p| p.placements.push(p.placements[0].clone())),
            ("does not fit it", |p| p.placements[0].encoding.order = vec![1].into()),
            ("does not fit it", |p| p.placements[0].extents[0].len = 4),
            ("a file that does not exist", |p| p.placements[0].extents[0].file = FileId(1)),
            ("a file that does not exist", |p| p.literals[0].file = FileId(1)),
            ("added that does not exist", |p| {
                p.placements[0].set_added(vec![added(1, &[AddedAxis::Along(0)])])
            }),
            ("does not fit it", |p| p.placements[0].set_added(vec![added(0, &[])])),
            ("does not fit it", |p| p.placements[0].set_added(vec![added(0, &[AddedAxis::Every])])),
            ("does not fit it", |p| p.placements[0].set_added(vec![added(0, &[AddedAxis::At(9)])])),
            ("does not fit it", |p| p.placements[0].set_added(vec![added(0, &[AddedAxis::Along(1)])])),
            ("outside their file", |p| p.placements[0].extents[0].offset = 5),
            ("outside their file", |p| p.placements[0].extents[0].offset = u64::MAX),
            ("overlap", |p| p.placements[0].extents[0].offset = 3),
            ("overlap", |p| p.literals[0].bytes.push(0)),
        ];
        placed().check(&checkpoint()).unwrap();
        for (message, damage) in defects {
            let mut placed = placed();
            damage(&mut placed);
            let error = placed.check(&checkpoint()).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Defect);
            assert!(error.to_string().contains(message), "{message}: {error}");
        }
    }

    /// Two tensors of the same bytes in the source, which share their extents.
    fn tied() -> (Checkpoint, OutputLayout) {
        let mut contents = crate::Contents { checkpoint: checkpoint(), ..crate::Contents::default() };
        let (mut tensor, mut placed) = (contents.checkpoint.tensors[0].clone(), placed());
        tensor.name = "again".into();
        contents.checkpoint.tensors.push(tensor);
        let first = placed.placements[0].clone();
        placed.placements.push(first.with_tensor(TensorId(1)).with_name("again"));
        contents.placements.clone_from(&placed.placements);
        contents.checkpoint.ties = Ties::of(&contents);
        (contents.checkpoint, placed)
    }

    #[test]
    fn ties_may_share_all_their_extents() {
        let (checkpoint, placed) = tied();
        placed.check(&checkpoint).unwrap();
        assert_eq!(placed.shared(&checkpoint.ties), BTreeMap::from([(1, 0)]));
    }

    #[test]
    fn the_same_bytes_of_another_dtype_share_extents_if_they_are_stored_as_they_are() {
        let (checkpoint, placed) = tied();
        let tensors =
            vec![checkpoint.tensors[0].clone(), checkpoint.tensors[1].clone().with_dtype(DType::I32)];
        let mut contents = crate::Contents { placements: placed.placements.clone(), ..Default::default() };
        contents.checkpoint.tensors = tensors;
        contents.placements[1].encoding.dtype = DType::I32;
        contents.checkpoint.ties = Ties::of(&contents);
        let placed = placed.with_placements(contents.placements.clone());
        placed.check(&contents.checkpoint).unwrap();
        assert_eq!(placed.shared(&contents.checkpoint.ties), BTreeMap::from([(1, 0)]));
        let mut cast = placed.clone();
        cast.placements[1].encoding.dtype = DType::U32;
        assert!(cast.check(&contents.checkpoint).unwrap_err().to_string().contains("overlap"));
    }

    #[test]
    fn tensors_that_are_no_ties_share_no_extents() {
        let (mut checkpoint, placed) = tied();
        checkpoint.ties = Ties::default();
        assert!(placed.check(&checkpoint).unwrap_err().to_string().contains("overlap"));
    }

    #[test]
    fn ties_that_overlap_in_part_or_are_encoded_differently_are_refused() {
        let (checkpoint, mut placed) = tied();
        placed.files[0].len = None;
        placed.placements[1].extents[0].offset = 8;
        assert!(placed.check(&checkpoint).unwrap_err().to_string().contains("overlap"));
        let (checkpoint, mut placed) = tied();
        placed.placements[1].encoding.endian = crate::Endian::Big;
        assert!(placed.check(&checkpoint).unwrap_err().to_string().contains("overlap"));
    }

    #[test]
    fn a_tensor_that_is_neither_placed_nor_added_to_another_is_unplaced() {
        let mut checkpoint = checkpoint();
        for name in ["bias", "gone"] {
            checkpoint.tensors.push(Tensor { name: name.into(), ..checkpoint.tensors[0].clone() });
        }
        let mut placed = placed();
        placed.placements[0].set_added(vec![added(1, &[AddedAxis::Along(0)])]);
        placed.check(&checkpoint).unwrap();
        let names: Vec<&str> = placed.unplaced(&checkpoint).map(|(_, tensor)| tensor.name.as_str()).collect();
        assert_eq!(names, ["gone"]);
    }
}
