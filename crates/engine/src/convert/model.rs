//! What a model adds to the conversion of its tensors: constants, metadata, files beside the output.

use super::Conversion;
use crate::formats::{CompanionFile, ConstantTensor, ModelRequest, ModelTranslation, no_metadata};
use crate::map::Mapped;
use crate::registry::Registry;
use crate::source::Source;
use ckpt_api::{
    Contents, Encoding, Endian, Error, FileId, FormatInfo, Literal, LossKind, OutputFile, OutputLayout,
    Placement, Reading, Result, TensorId, Ties,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

impl Conversion {
    /// Asks what the conversion adds to the tensors of a model; nothing if the user names a mapping.
    pub(super) fn translate_model(
        &self,
        registry: &Registry,
        source: &Source,
        target: &FormatInfo,
    ) -> Result<Option<ModelTranslation>> {
        let Some(kinds) = registry.model_kinds().filter(|_| self.mapping.is_none()) else { return Ok(None) };
        kinds.translate(
            registry,
            &ModelRequest::new(source, target, &self.options, self.dtype, self.directory),
        )
    }

    /// The same conversion with the mapping, options and dtype of a model.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a parameter of the mapping that nothing states.
    pub(super) fn of_model(&self, model: &ModelTranslation, source: &Source) -> Result<Self> {
        let mapping = model.mapping.as_ref().map(|mapping| source.with_parameters(mapping)).transpose()?;
        let mapping = mapping.map(Cow::into_owned);
        let exclude = [self.exclude.clone(), model.exclude.clone()].concat();
        Ok(Conversion {
            exclude,
            mapping,
            options: model.options.clone(),
            dtype: model.dtype,
            ..self.clone()
        })
    }
}

/// Puts the constants before the tensors of the output, and adds the model's metadata.
pub(super) fn describe(model: &mut ModelTranslation, contents: &mut Contents) -> Result<()> {
    let count = model.constants.len();
    for tensor in model.constants.iter().map(|constant| &constant.tensor) {
        if contents.checkpoint.tensor(&tensor.name).is_some() {
            return Err(Error::mapping("the checkpoint has a tensor that follows from the configuration")
                .tensor(&tensor.name)
                .expected("a checkpoint without it"));
        }
    }
    let tensors = model.constants.iter().map(|constant| constant.tensor.clone());
    contents.checkpoint.tensors.splice(0..0, tensors);
    let placed = model.constants.iter().enumerate().map(|(id, ConstantTensor { tensor, .. })| {
        Placement::new(TensorId(id), tensor.name.clone(), Vec::new(), Encoding::row_major(tensor))
    });
    contents.placements.splice(0..0, placed.collect::<Vec<_>>());
    number(contents, count);
    let describe = std::mem::replace(&mut model.describe, no_metadata());
    // A vocabulary has a hundred thousand texts and more: moved, not copied.
    for (namespace, entries) in BTreeMap::from(describe(&contents.checkpoint)?) {
        for (key, value) in entries {
            contents.checkpoint.metadata.insert(&namespace, &key, value);
        }
    }
    contents.add_notes(model.notes.iter().cloned());
    Ok(())
}

/// Leaves out what is no loss: needs that constants meet, and rounding of numbers that the dtype holds.
pub(super) fn keep_losses(model: &ModelTranslation, mapped: &mut Mapped) {
    let exact: HashSet<&str> = model.exact.iter().map(String::as_str).collect();
    let Mapped { losses, made_of, .. } = mapped;
    let is_exact = |name: &str| match made_of.get(name) {
        Some(sources) => sources.iter().all(|source| exact.contains(source.as_str())),
        None => exact.contains(name),
    };
    losses.retain(|loss| {
        let is_rounding = loss.kind == LossKind::Narrowed && is_exact(&loss.subject);
        !is_rounding && !model.has_constant(&loss.subject)
    });
}

/// Turns the constants, which a codec has placed as tensors, into bytes of the output's header.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if the format stores one of them in another dtype.
pub(super) fn fix(
    constants: &[ConstantTensor],
    contents: &mut Contents,
    placed: &mut OutputLayout,
) -> Result<()> {
    let count = constants.len();
    let placements = std::mem::take(&mut placed.placements);
    for mut placement in placements {
        let Some(constant) = constants.get(placement.tensor.0) else {
            placement.tensor = TensorId(placement.tensor.0 - count);
            placed.placements.push(placement);
            continue;
        };
        placed.literals.push(literal(constant, &placement)?);
    }
    placed.whole_units.retain(|id| id.0 >= count);
    placed.whole_units.iter_mut().for_each(|id| id.0 -= count);
    contents.checkpoint.tensors.drain(..count);
    contents.placements.drain(..count);
    number(contents, 0);
    Ok(())
}

/// The bytes of a constant, at the place that a codec gives it.
fn literal(constant: &ConstantTensor, placement: &Placement) -> Result<Literal> {
    let tensor = &constant.tensor;
    let plain = Encoding::row_major(tensor);
    let is_plain = [Endian::Little, Endian::Big]
        .into_iter()
        .find(|endian| placement.encoding == plain.clone().with_endian(*endian));
    let ([extent], Some(endian)) = (&placement.extents[..], is_plain) else {
        return Err(Error::unsupported("the format cannot store a tensor of the model's configuration")
            .tensor(&tensor.name)
            .expected(format!("{} in one piece", tensor.dtype)));
    };
    let mut bytes = constant.bytes.clone();
    if endian == Endian::Big {
        let size = usize::try_from(tensor.value_bytes() / tensor.shape.elements().max(1)).unwrap_or(1);
        bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    }
    Ok(Literal { file: extent.file, offset: extent.offset, bytes })
}

/// Gives the placements the numbers of their tensors, and finds the ties again. The first `constants` have no bytes.
fn number(contents: &mut Contents, constants: usize) {
    let numbered = contents.placements.iter_mut().enumerate().skip(constants);
    numbered.for_each(|(id, placement)| placement.tensor = TensorId(id));
    contents.checkpoint.ties = Ties::of(contents);
}

/// Adds files to those of the output: all of them appear, or none.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for the name of another file of the output.
pub(super) fn accompany(files: Vec<CompanionFile>, name: &str, placed: &mut OutputLayout) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    if placed.readings.is_empty() {
        let main = placed.files.iter().find(|file| file.name == name).or(placed.files.last());
        let entry = main.map(|file| file.name.clone());
        placed.readings.extend(entry.map(|entry| Reading { entry, ..Reading::default() }));
    }
    for CompanionFile { name, bytes } in files {
        if placed.files.iter().any(|file| file.name == name) {
            return Err(Error::usage("two files of the output have the same name").file(name));
        }
        let file = FileId(placed.files.len());
        placed.files.push(OutputFile::new(name, bytes.len() as u64));
        placed.literals.push(Literal { file, offset: 0, bytes });
    }
    Ok(())
}
