//! Writes the files of a model with the checkpoint's numbers in the places of its own.

use super::names::below;
use crate::format::{DATA, MANIFEST};
use crate::read::{Package, is_plain};
use ckpt_api::{
    Checkpoint, Error, FileId, Literal, OutputFile, OutputLayout, Placement, Result, Role, Tensor, TensorId,
    first_few,
};
use std::collections::HashMap;

/// Names that an error lists.
const SHOWN: usize = 5;

/// The layout of the model that the checkpoint was read from; `None` if there is none, or it is not the same any more.
pub(super) fn unchanged(checkpoint: &Checkpoint, name: &str) -> Option<OutputLayout> {
    let package = Package::kept(&checkpoint.metadata)?;
    let contents = &package.parsed.contents;
    (contents.checkpoint.graph == checkpoint.graph).then_some(())?;
    let ids = by_name(checkpoint);
    let mut placements = Vec::with_capacity(contents.placements.len());
    for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
        let id = *ids.get(tensor.name.as_str())?;
        checkpoint.tensors.get(id.0).filter(|own| is_same(own, tensor))?;
        placements.push(placement.clone().with_tensor(id));
    }
    // Weights that the model lacks need a new one.
    let weights = checkpoint.tensors.iter().filter(|tensor| tensor.role == Role::Weight).count();
    (weights == placements.len()).then_some(())?;
    let layout = layout(&package, placements, name).ok()?;
    layout.check(checkpoint).ok().map(|()| layout)
}

/// The layout of a model that is given, with the checkpoint's numbers.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for tensors that the checkpoint lacks, or that have other shapes there;
/// [`ckpt_api::Kind::Unsupported`] for compressed weights, which have no place for other numbers.
pub(super) fn like(
    checkpoint: &Checkpoint,
    name: &str,
    package: &Package,
    path: &str,
) -> Result<OutputLayout> {
    let contents = &package.parsed.contents;
    let stored = || contents.checkpoint.tensors.iter().zip(&contents.placements);
    if let Some((tensor, _)) = stored().find(|(_, placement)| !is_plain(placement)) {
        return Err(Error::unsupported(
            "the model has compressed weights, which have no place for other numbers",
        )
        .file(path)
        .tensor(&tensor.name)
        .found("weights that are computed when the model is loaded")
        .expected("constants that are stored as they are")
        .help("decompress the model first, with coremltools.optimize.coreml.decompress_weights"));
    }
    if package.files.is_empty() {
        return Err(Error::unsupported("the model has too much beside its weights")
            .file(path)
            .found("more bytes than the limit header_bytes")
            .expected("a model that is mostly weights"));
    }
    let ids = by_name(checkpoint);
    let (mut placements, mut missing, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (tensor, placement) in stored() {
        match ids.get(tensor.name.as_str()) {
            Some(id) => {
                let own = checkpoint.tensors.get(id.0).map_or(&tensor.shape, |own| &own.shape);
                if *own != tensor.shape {
                    return Err(Error::usage("a tensor does not have the shape that the model states")
                        .tensor(&tensor.name)
                        .found(own.to_string())
                        .expected(tensor.shape.to_string())
                        .help("give a model of the same layers"));
                }
                placements.push(placement.clone().with_tensor(*id));
            }
            // One number in the program itself belongs to its operation, such as an epsilon.
            None if tensor.shape.elements() == 1 && is_of_program(placement) => {
                kept.extend(placement.extents.iter().cloned())
            }
            None => missing.push(tensor.name.as_str()),
        }
    }
    if !missing.is_empty() {
        return Err(Error::usage("the checkpoint lacks tensors of the model")
            .file(path)
            .found(format!("{} without numbers: {}", missing.len(), first_few(&missing, SHOWN)))
            .expected("a tensor of each name")
            .help("rename tensors with a mapping"));
    }
    let mut layout = layout(package, placements, name)?;
    for extent in kept {
        let structure = package.files.get(extent.file.0).map(|(_, structure)| structure);
        let bytes = structure.and_then(|structure| small(structure, &extent));
        let bytes = bytes.ok_or_else(|| Error::defect("the numbers of a small constant are not kept"))?;
        layout.literals.push(Literal { file: extent.file, offset: extent.offset, bytes });
    }
    Ok(layout)
}

/// The bytes of a small tensor.
fn small(structure: &ckpt_containers::structure::Structure, extent: &ckpt_api::Extent) -> Option<Vec<u8>> {
    use ckpt_api::ReadAt as _;
    let mut bytes = vec![0; usize::try_from(extent.len).ok()?];
    let read = structure.read_at(extent.offset, &mut bytes).ok()?;
    (read == bytes.len()).then_some(bytes)
}

/// Whether a constant is in the file of the model.
fn is_of_program(placement: &Placement) -> bool {
    let is_own = |extent: &ckpt_api::Extent| extent.file == FileId(0) && extent.len <= crate::read::SMALL;
    placement.extents.iter().all(is_own)
}

fn by_name(checkpoint: &Checkpoint) -> HashMap<&str, TensorId> {
    checkpoint.by_name()
}

/// The files, named after the output.
fn layout(package: &Package, placements: Vec<Placement>, name: &str) -> Result<OutputLayout> {
    let is_file = name.ends_with(".mlmodel");
    if package.is_folder() && is_file {
        return Err(Error::usage("the model is a package, and no single file")
            .file(name)
            .found("an output named .mlmodel")
            .expected("one named .mlpackage"));
    }
    let placed = |own: &str| match (package.is_folder(), is_file) {
        (false, true) => name.to_owned(),
        (true, _) => below(name, own),
        (false, false) => below(name, &format!("{DATA}/{}", super::fresh::MODEL)),
    };
    let mut layout = OutputLayout::default().with_placements(placements);
    for (number, (own, structure)) in package.files.iter().enumerate() {
        let len = structure.file_len().ok_or_else(|| Error::defect("a file has too many bytes"))?;
        layout.files.push(OutputFile::new(placed(own), len));
        let literals = structure.literals().into_iter();
        layout.literals.extend(literals.map(|(offset, bytes)| Literal {
            file: FileId(number),
            offset,
            bytes: bytes.to_vec(),
        }));
    }
    if !package.is_folder() && !is_file {
        let bytes = super::fresh::manifest(false);
        let file = FileId(layout.files.len());
        layout.files.push(OutputFile::new(below(name, MANIFEST), bytes.len() as u64));
        layout.literals.push(Literal { file, offset: 0, bytes });
    }
    layout.working_memory = layout.literals.iter().map(|literal| literal.bytes.len() as u64).sum();
    Ok(layout)
}

fn is_same(own: &Tensor, before: &Tensor) -> bool {
    own.dtype == before.dtype
        && own.shape == before.shape
        && own.axes == before.axes
        && own.quantization == before.quantization
        && own.slot.is_none()
}
