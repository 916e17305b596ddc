//! The result of reading: what a codec returns.

use super::options::LENIENT;
use crate::io::ends_before;
use crate::layout::check_fit;
use crate::metadata::MetadataSize;
use crate::{
    Checkpoint, Error, Extent, File, Graph, Input, Limit, Limits, Loss, Name, Options, Placement, Result,
    Setting, Shape, Tensor, TensorId, Text, first_repeated, text,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The result of [`crate::Codec::read`]: a checkpoint and where its bytes are.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Contents {
    /// Graph, tensors, metadata.
    pub checkpoint: Checkpoint,
    /// Files that placements refer to, relative to the input's directory.
    pub files: Vec<String>,
    /// One per tensor, in the same order.
    pub placements: Vec<Placement>,
    /// What a lenient reading had to mend.
    pub repairs: Vec<Repair>,
    /// What the model has and this checkpoint has not: that it is a part of a model ([`LossKind::Partial`](crate::LossKind)),
    /// and what reading left out. Every conversion has these losses, too, unless their subject is excluded.
    pub losses: Vec<Loss>,
    /// What the user should know about this file, one sentence each.
    pub notes: Vec<Text>,
    /// What the graph assumes about the model, or does not show of it, one sentence each. They qualify every result of
    /// running the graph, and the engine prints them with it.
    pub graph_notes: Vec<Text>,
    /// What the model does only in training, as `layer (what)`: no graph shows it, so a target that gets the graph alone
    /// lacks it. The engine names it there.
    pub training_only: Vec<String>,
    /// Lengths of the axes of a random example, by input of the graph, if they are known; for axes that the graph
    /// leaves free.
    pub example_shapes: BTreeMap<String, Vec<Option<u64>>>,
    /// Why the checkpoint has no graph, if the codec looked for one. The engine adds a note on it.
    pub missing_graph: Option<MissingGraph>,
    /// Whether the graph is that of [`Options::model`], with the names that the tensors have here.
    pub adopts_model: bool,
    /// Why the tensors are not those of [`Options::model`], if the codec knows which tensor is which of the model's.
    pub misfit: Option<ShapeMismatch>,
    /// The layers that have tensors, if there is no graph of the whole model: what they compute of what is not stated, but how
    /// their tensors are stored is. It cannot be run.
    pub outline: Option<Box<Graph>>,
    /// Bytes of memory that reading took beside all this, if it is much: several hundred for each tensor. The engine counts
    /// them among what a conversion needs.
    pub working_memory: u64,
}

/// A tensor that has another shape than the same tensor of a model that is given beside the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeMismatch {
    /// The tensor's name in the checkpoint.
    pub tensor: Name,
    /// Its shape in the checkpoint.
    pub found: Shape,
    /// The shape in the model.
    pub expected: Shape,
}

/// Why a checkpoint has no graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingGraph {
    /// The reason, as a clause that names the file, and the operation or layer that it is about.
    pub reason: Text,
    /// Whether the files leave the layers open, so that the user may be able to describe them; `false` if they state
    /// something that no [`Architecture`](crate::Architecture) can.
    pub is_unstated: bool,
    /// How the user can supply what the format needs, if that is something other than a chain of layers.
    pub help: Option<Text>,
}

/// Something that a lenient reading accepted although the format's rules forbid it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The tensor, field or file.
    pub subject: String,
    /// What was wrong and what was assumed instead.
    pub detail: String,
}

/// How strictly a codec keeps its format's rules, and what it mended so far.
///
/// ```
/// use ckpt_api::{Error, Rules};
/// let odd = || Error::corrupt("the padding is not zero");
/// assert!(Rules::default().mend("padding", "it is read as zero", odd()).is_err());
/// let mut rules = Rules { lenient: true, ..Rules::default() };
/// rules.mend("padding", "it is read as zero", odd())?;
/// assert_eq!(rules.repairs[0].detail, "the padding is not zero: it is read as zero");
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Rules {
    /// Whether deviations that leave a sense are accepted: the option `lenient`.
    pub lenient: bool,
    /// What was mended, for [`Contents::repairs`].
    pub repairs: Vec<Repair>,
}

impl Rules {
    /// The rules that the option [`lenient`](crate::OptionSpec::lenient) asks for.
    pub fn new(options: &Options) -> Self {
        Rules { lenient: options.flag(LENIENT), ..Rules::default() }
    }

    /// A deviation of `subject`: `error` when strict, else a repair that states what is `assumed` instead.
    ///
    /// # Errors
    /// `error`, with the option that would accept it.
    pub fn mend(&mut self, subject: impl Into<String>, assumed: &str, error: Error) -> Result<()> {
        if !self.lenient {
            return Err(error.help(text![
                "to read it anyway, use ",
                Setting::READ_OPTION.of("lenient=true"),
                format!(": {assumed}")
            ]));
        }
        let detail = format!("{}: {assumed}", error.message());
        self.repairs.push(Repair { subject: subject.into(), detail });
        Ok(())
    }
}

impl Contents {
    /// A tensor and where its bytes are.
    ///
    /// # Errors
    /// [`crate::Kind::Defect`] for one that does not exist.
    pub fn tensor_at(&self, id: TensorId) -> Result<(&Tensor, &Placement)> {
        let pair = self.checkpoint.tensors.get(id.0).zip(self.placements.get(id.0));
        pair.ok_or_else(|| Error::defect("no such tensor").found(id.0.to_string()))
    }

    /// Checks what no codec should have to check again: every tensor has a fitting placement, names are unique,
    /// slices cover their tensor exactly, the graph can run in its order and names tensors that exist.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] or [`crate::Kind::Limit`], naming the tensor.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let tensors = &self.checkpoint.tensors;
        limits.check(Limit::Tensors, tensors.len() as u64)?;
        limits.check(Limit::Files, self.files.len() as u64)?;
        if tensors.len() != self.placements.len() {
            return Err(Error::corrupt("some tensors have no placement")
                .found(self.placements.len().to_string())
                .expected(tensors.len().to_string()));
        }
        for (id, (tensor, placement)) in tensors.iter().zip(&self.placements).enumerate() {
            limits.check(Limit::NameBytes, tensor.name.len() as u64)?;
            self.check_tensor(TensorId(id), tensor, placement, limits)
                .map_err(|error| error.tensor(&tensor.name))?;
        }
        self.check_names()?;
        self.check_metadata(limits)?;
        self.check_graph(limits)
    }

    fn check_metadata(&self, limits: &Limits) -> Result<()> {
        let mut size = MetadataSize::default();
        size.add_all(&self.checkpoint.metadata, limits)?;
        for tensor in &self.checkpoint.tensors {
            size.add_all(&tensor.metadata, limits).map_err(|error| error.tensor(&tensor.name))?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let names = self.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str());
        match first_repeated(names) {
            Some(name) => Err(Error::corrupt("two tensors have the same name").tensor(name)),
            None => Ok(()),
        }
    }

    fn check_tensor(
        &self,
        id: TensorId,
        tensor: &Tensor,
        placement: &Placement,
        limits: &Limits,
    ) -> Result<()> {
        let rank = tensor.shape.rank();
        limits.check(Limit::Rank, rank as u64)?;
        let elements = tensor.shape.elements();
        let lengths_fit = match (&tensor.lengths, tensor.dtype.bytes()) {
            (None, Some(_)) => true,
            (Some(lengths), None) => lengths.len() as u64 == elements,
            _ => false,
        };
        let axes_fit = tensor.axes.as_ref().is_none_or(|axes| axes.len() == rank);
        let scales_fit = tensor.quantization.as_ref().is_none_or(|own| own.fits(&tensor.shape));
        let files_fit = placement.extents.iter().all(|extent| extent.file.0 < self.files.len());
        if placement.tensor != id || !lengths_fit || !axes_fit || !scales_fit || !files_fit {
            return Err(Error::corrupt("the tensor's description contradicts itself"));
        }
        if placement.extents.iter().any(|extent| extent.region().is_some()) {
            limits.check(Limit::Slices, placement.extents.len() as u64)?;
        }
        for (extent, compression) in placement.extents.iter().filter_map(|e| Some((e, e.compression()?))) {
            let file = self.files.get(extent.file.0).map_or("", String::as_str);
            compression.check(extent.len, limits).map_err(|error| error.offset(extent.offset).file(file))?;
        }
        for (extent, computed) in placement.extents.iter().filter_map(|e| Some((e, e.computed()?))) {
            computed.check_extent(extent, self.files.len(), limits)?;
            placement.encoding.check_computed(computed)?;
        }
        check_fit(tensor, placement)
    }

    fn check_graph(&self, limits: &Limits) -> Result<()> {
        let Some(graph) = &self.checkpoint.graph else { return Ok(()) };
        limits.check(Limit::GraphNodes, graph.all_nodes().count() as u64)?;
        graph.check()?;
        let names: HashSet<&str> =
            self.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        for node in graph.all_nodes() {
            for (role, tensor) in &node.parameters {
                if !names.contains(tensor.as_str()) {
                    return Err(Error::corrupt(format!(
                        "layer '{}' refers to a tensor that is missing",
                        node.name
                    ))
                    .field(role.as_str())
                    .tensor(tensor.as_str()));
                }
            }
        }
        Ok(())
    }

    /// Checks that the files have all the bytes that the given tensors' placements name. Apart from
    /// [`Contents::check`], because a checkpoint without its data can still be inspected.
    ///
    /// # Errors
    /// [`crate::Kind::Io`] for a missing file, [`crate::Kind::Corrupt`] for a short one.
    pub fn check_data(&self, input: &Input, tensors: impl Iterator<Item = TensorId>) -> Result<()> {
        input.will_open(&self.files);
        let mut lens: Vec<Option<u64>> = vec![None; self.files.len()];
        for id in tensors {
            let placement = &self.placements[id.0];
            let tensor = &self.checkpoint.tensors[id.0].name;
            let ranges = placement.extents.iter().flat_map(Extent::stored_ranges);
            for (file, offset, stored) in ranges.filter(|(.., stored)| *stored > 0) {
                let name = &self.files[file.0];
                let len = match lens[file.0] {
                    Some(len) => len,
                    None => {
                        *lens[file.0].insert(input.file(name).map_err(|error| error.tensor(tensor))?.len())
                    }
                };
                if offset.checked_add(stored).is_none_or(|end| end > len) {
                    let shown = input.display(name);
                    let error = ends_before("tensor", &shown, len, offset, stored);
                    return Err(error.tensor(tensor));
                }
            }
        }
        Ok(())
    }

    /// The same with this checkpoint.
    #[must_use]
    pub fn with_checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// The same with these files.
    #[must_use]
    pub fn with_files(mut self, files: Vec<String>) -> Self {
        self.files = files;
        self
    }

    /// The same with these placements, one per tensor.
    #[must_use]
    pub fn with_placements(mut self, placements: Vec<Placement>) -> Self {
        self.placements = placements;
        self
    }

    /// The same with the memory that reading took beside the result, in bytes. Default: 0.
    #[must_use]
    pub fn with_working_memory(mut self, bytes: u64) -> Self {
        self.working_memory = bytes;
        self
    }

    /// The same with these repairs.
    #[must_use]
    pub fn with_repairs(mut self, repairs: Vec<Repair>) -> Self {
        self.repairs = repairs;
        self
    }

    /// The same with these losses of reading.
    #[must_use]
    pub fn with_losses(mut self, losses: Vec<Loss>) -> Self {
        self.losses = losses;
        self
    }

    /// Whether every tensor of the files was read: no repair and no loss left one out.
    pub fn is_complete(&self) -> bool {
        self.repairs.is_empty() && self.losses.is_empty()
    }

    /// Returns all notes: those on the file, then those on the graph.
    ///
    /// ```
    /// let mut contents = ckpt_api::Contents::default().with_notes(["one shard is empty"]);
    /// contents.graph_notes.push("'dense' is assumed to be a dense layer".into());
    /// assert_eq!(contents.all_notes().count(), 2);
    /// ```
    pub fn all_notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().chain(&self.graph_notes).map(Text::as_str)
    }

    /// Whether the user may be able to describe the layers, if there is no graph.
    pub fn can_be_described(&self) -> bool {
        match &self.missing_graph {
            Some(MissingGraph { help: Some(_), .. }) => true,
            Some(missing) if !missing.is_unstated => false,
            _ => self.checkpoint.obstacle_to_architecture().is_none(),
        }
    }

    /// Adds what the user should know about the file.
    pub fn add_notes<T: Into<Text>>(&mut self, notes: impl IntoIterator<Item = T>) {
        self.notes.extend(notes.into_iter().map(Into::into));
    }

    /// Explains how the user can supply the graph that is missing.
    ///
    /// ```
    /// let contents = ckpt_api::Contents::default();
    /// assert!(contents.advise_graph().starts_with("an architecture file cannot describe this model"));
    /// ```
    pub fn advise_graph(&self) -> Text {
        match &self.missing_graph {
            Some(MissingGraph { help: Some(help), .. }) => help.clone(),
            Some(missing) if !missing.is_unstated => {
                "an architecture file cannot describe this model as a chain of layers, but can state its graph"
                    .into()
            }
            _ => self.checkpoint.advise_architecture(),
        }
    }

    /// The same with these notes.
    #[must_use]
    pub fn with_notes<T: Into<Text>>(mut self, notes: impl IntoIterator<Item = T>) -> Self {
        self.notes = notes.into_iter().map(Into::into).collect();
        self
    }
}

impl Input {
    /// Reads a format that is one file, which `read` is given and errors name. `format` says what is one file, as in
    /// `"a CNN2 file"`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for a directory; those of [`Input::file`] and of `read`.
    pub fn read_alone(&self, format: &str, read: impl FnOnce(&File) -> Result<Contents>) -> Result<Contents> {
        if self.is_directory() {
            return Err(Error::usage(format!("{format} is one file, and the input is a directory"))
                .file(self.display(self.entry()))
                .help("name the file itself"));
        }
        let file = self.main()?;
        let mut contents = read(&file).map_err(|error| error.file(file.name()))?;
        contents.files = vec![self.entry().to_owned()];
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Encoding, Extent, FileId, Region, Shape, Tile, Window};

    fn sliced(slices: &[([u64; 2], [u64; 2])]) -> Contents {
        let tensor = Tensor::new("v", DType::U8, Shape::new(vec![2, 2]).unwrap());
        let extents: Vec<_> = slices
            .iter()
            .map(|(start, shape)| {
                let region = Region { start: start.to_vec(), shape: Shape::new(shape).unwrap() };
                Extent::new(FileId(0), 0, shape[0] * shape[1]).with_region(region)
            })
            .collect();
        let placement = Placement::new(TensorId(0), "v", extents, Encoding::row_major(&tensor));
        Contents {
            checkpoint: Checkpoint { tensors: vec![tensor], ..Checkpoint::default() },
            files: vec!["f".into()],
            placements: vec![placement],
            ..Contents::default()
        }
    }

    #[test]
    fn slices_that_tile_the_tensor_are_accepted() {
        sliced(&[([1, 0], [1, 2]), ([0, 0], [1, 1]), ([0, 1], [1, 1])]).check(&Limits::default()).unwrap();
    }

    #[test]
    fn slices_that_leave_a_hole_overlap_or_stick_out_are_refused() {
        for slices in [
            &[([0, 0], [1, 2])][..],
            &[([0, 0], [1, 2]), ([0, 1], [2, 1])],
            &[([0, 0], [1, 2]), ([2, 0], [1, 2])],
        ] {
            let error = sliced(slices).check(&Limits::default()).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Corrupt, "{slices:?}");
        }
    }

    #[test]
    fn a_stored_size_that_does_not_fit_the_shape_is_refused() {
        let mut contents = sliced(&[([0, 0], [2, 2])]);
        contents.placements[0].extents[0].set_region(None);
        contents.check(&Limits::default()).unwrap();
        contents.placements[0].extents[0].len = 3;
        assert!(contents.check(&Limits::default()).is_err());
    }

    #[test]
    fn an_axis_order_that_is_no_permutation_is_refused() {
        let mut contents = sliced(&[([0, 0], [2, 2])]);
        contents.placements[0].encoding.order = vec![0, 0].into();
        assert!(contents.check(&Limits::default()).is_err());
    }

    #[test]
    fn a_tensor_may_be_a_box_of_a_whole_that_is_stored_in_tiles() {
        let mut contents = sliced(&[([0, 0], [2, 2])]);
        let placement = &mut contents.placements[0];
        (placement.extents[0].len, placement.encoding.order) = (8, vec![0, 1, 2].into());
        placement.extents[0].set_region(None);
        placement.encoding.set_tiles([Tile { axis: 0, lens: vec![2] }]);
        placement.set_window(Window::new(vec![2, 0], Shape::new([4, 2]).unwrap()));
        contents.check(&Limits::default()).unwrap();
        let odd = Window::new(vec![1, 0], Shape::new([3, 2]).unwrap());
        contents.placements[0].set_window(odd);
        contents.placements[0].extents[0].len = 6;
        assert_eq!(contents.check(&Limits::default()).unwrap_err().kind(), crate::Kind::Corrupt);
    }

    #[test]
    fn a_format_of_one_file_has_that_file_alone_and_names_it_in_errors() {
        let input = Input::memory("a.index", BTreeMap::from([("a.index".to_owned(), b"12345".to_vec())]));
        let contents = input.read_alone("a toy", |_| Ok(Contents::default())).unwrap();
        assert_eq!(contents.files, ["a.index"]);
        let error = input.read_alone("a toy", |file| file.bytes(9, 9).map(|_| Contents::default()));
        assert!(error.unwrap_err().to_string().contains("file a.index"));
        let error = Input::memory("", BTreeMap::new()).read_alone("a toy", |_| Ok(Contents::default()));
        assert_eq!(error.unwrap_err().kind(), crate::Kind::Usage);
    }
}
