//! Checks of writing what another format holds: it comes back, is refused, or is declared as a loss.

use crate::cast::cast;
use crate::changed::same;
use crate::memory::{permuted, place, read, read_given, write};
use crate::offers::{Offer, offers};
use crate::reading::{Reading, shown};
use crate::sample::Sample;
use crate::steps::Steps;
use crate::writing::check_offsets;
use ckpt_api::{
    Aspect, Axis, Checkpoint, Codec, DType, FormatInfo, Input, Kind, LossKind, Metadata, Options,
    OutputLayout, Placement, Result, Role, Side, Tensor,
};
use std::collections::BTreeMap;

/// Offers checkpoints that the format may not hold to the codec: some of the kit's own, and a sample's with additions.
pub(crate) fn check_foreign(codec: &dyn Codec, sample: &Sample, reading: &Reading, steps: &Steps) {
    for offer in offers(reading) {
        check_offer(codec, sample, &offer, steps);
    }
}

fn check_offer(codec: &dyn Codec, sample: &Sample, offer: &Offer, steps: &Steps) {
    let Offer { checkpoint, values, .. } = offer;
    let what = format!("{}: a foreign checkpoint with {}", sample.name, offer.what);
    let placed = steps.run(&what, || place(codec, checkpoint, &sample.output, &sample.write));
    let placed = match placed {
        Ok(placed) => placed,
        Err(error) if is_refusal(error.kind()) => return,
        Err(error) => panic!("{what} is refused by an error that blames something else: {error}"),
    };
    check_offsets(sample, checkpoint, &placed, &what);
    let files = match steps.run(&what, || write(codec, checkpoint, values, &sample.output, &sample.write)) {
        Ok(files) => files,
        Err(error) if is_refusal(error.kind()) => return,
        Err(error) => panic!("{what} cannot be written as it was placed: {error}"),
    };
    let (contents, back_values) = steps
        .run(&format_args!("{what}, read again"), || read_back(codec, sample, offer, &placed, files))
        .unwrap_or_else(|error| panic!("{what} is written, and cannot be read again: {error}"));
    let back = &contents.checkpoint;
    Comparison { what, info: codec.info(), offer, placed: &placed, back, back_values: &back_values }.check();
}

/// Errors by which a codec refuses what its format cannot hold.
fn is_refusal(kind: Kind) -> bool {
    matches!(kind, Kind::Lossy | Kind::Unsupported | Kind::Usage | Kind::Limit | Kind::Mapping)
}

/// Reads what was written: as the sample is read, or as the codec states for another checkpoint.
fn read_back(
    codec: &dyn Codec,
    sample: &Sample,
    offer: &Offer,
    placed: &OutputLayout,
    files: BTreeMap<String, Vec<u8>>,
) -> Result<Reading> {
    let ([reading], false) = (&placed.readings[..], offer.is_sample) else {
        let entry = sample.written_entry(&files).to_owned();
        return read(codec, &Input::memory(&entry, files), &sample.read);
    };
    let info = codec.info();
    let options = Options::parse(info.id, info.options, Side::Read, &reading.options)?;
    let options = options.with_architecture(reading.architecture.clone());
    read_given(codec, &Input::memory(&reading.entry, files), &options)
}

/// What was offered, and what came back.
struct Comparison<'a> {
    what: String,
    info: &'a FormatInfo,
    offer: &'a Offer,
    placed: &'a OutputLayout,
    back: &'a Checkpoint,
    back_values: &'a [Vec<u8>],
}

impl Comparison<'_> {
    fn check(&self) {
        let given = &self.offer.checkpoint;
        for placement in &self.placed.placements {
            self.check_tensor(placement);
        }
        if self.keeps(Aspect::Metadata) {
            self.check_metadata(&self.what, &[], &given.metadata, &self.back.metadata);
        }
        let kept =
            given.graph.is_none() || same(&given.graph, &self.back.graph) || !self.keeps(Aspect::Graph);
        let kinds = [LossKind::GraphDropped, LossKind::LayerDropped, LossKind::NamesDropped];
        assert!(
            kept || self.placed.losses.iter().any(|loss| kinds.contains(&loss.kind)),
            "{}: the graph changed or was lost without a word:\n{:?}\n{:?}",
            self.what,
            given.graph,
            self.back.graph
        );
    }

    /// Whether this must come back: the engine declares the loss of what the format does not keep.
    fn keeps(&self, aspect: Aspect) -> bool {
        self.info.keeps.contains(&aspect) && !self.placed.left_out.contains_key(&aspect)
    }

    /// Whether a loss of this kind has one of these subjects.
    fn declares(&self, kind: LossKind, subjects: &[&str]) -> bool {
        self.placed.losses.iter().any(|loss| loss.kind == kind && subjects.contains(&loss.subject.as_str()))
    }

    /// Every key of another format comes back as it was, or its loss is declared: for the key, its namespace, or
    /// `owner`.
    fn check_metadata(&self, what: &str, owner: &[&str], given: &Metadata, back: &Metadata) {
        let entries =
            given.iter().flat_map(|(namespace, map)| map.iter().map(move |entry| (namespace, entry)));
        for (namespace, (key, value)) in entries {
            let again = back.value(namespace, key);
            let full = format!("{namespace}.{key}");
            let subjects = [&[namespace, key, &full], owner].concat();
            assert!(
                again.is_some_and(|again| same(again, value))
                    || self.declares(LossKind::MetadataDropped, &subjects),
                "{what}: the metadata {full} was {value:?}, comes back as {again:?}, and no loss says so; its subject \
                 would be one of {subjects:?}"
            );
        }
    }

    fn check_tensor(&self, placement: &Placement) {
        let (given, value) =
            (&self.offer.checkpoint.tensors[placement.tensor.0], &self.offer.values[placement.tensor.0]);
        let what = format!("{}: tensor '{}'", self.what, given.name);
        let mut own = self.placed.losses.iter().filter(|loss| loss.subject == given.name);
        if own.clone().any(|loss| drops_value(loss.kind)) || !placement.added().is_empty() {
            return;
        }
        let Some((found, again)) = self.found(given) else {
            let names: Vec<&str> = self.back.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            let declared = self.declares(LossKind::NamesDropped, &[&given.name, "names"]);
            assert!(declared, "{what} comes back under another name, without a word: {names:?}");
            return;
        };
        // A format that loses the shape loses the order of the axes with it.
        let is_flat = found.shape.rank() != given.shape.rank();
        if is_flat && self.declares(LossKind::MetadataDropped, &[&given.name, "shapes"]) {
            return;
        }
        if !own.any(|loss| changes_value(loss.kind)) {
            check_value(&what, (given, value), placement, (found, again));
        }
        if self.keeps(Aspect::TensorMetadata) {
            let owner = [given.name.as_str(), "metadata of tensors"];
            self.check_metadata(&what, &owner, &given.metadata, &found.metadata);
        }
        self.check_meaning(&what, given, placement, found);
    }

    /// What the tensor means comes back, or its loss is declared: for the tensor, or for all.
    fn check_meaning(&self, what: &str, given: &Tensor, placement: &Placement, found: &Tensor) {
        let axes = stored_axes(given, placement, found);
        let changed = [
            ("axes", "axes", Aspect::Axes, axes.is_some() && axes != found.axes),
            ("role", "roles", Aspect::Roles, given.role != found.role),
            ("slot", "slots", Aspect::Slots, given.slot.is_some() && given.slot != found.slot),
            (
                "scale",
                "scales",
                Aspect::Scales,
                given.quantization.is_some() && given.quantization != found.quantization,
            ),
        ];
        for (name, all, aspect, _) in
            changed.iter().filter(|(_, _, aspect, lost)| *lost && self.keeps(*aspect))
        {
            let kind =
                if *aspect == Aspect::Scales { LossKind::ScaleDropped } else { LossKind::MetadataDropped };
            assert!(
                self.declares(kind, &[&given.name, all]),
                "{what}: its {name} changed or was lost, and no loss says so ({} of '{}' or '{all}'): {given:?} came \
                 back as {found:?}",
                kind.name(),
                given.name
            );
        }
    }

    /// What a tensor came back as: by its name, or by its slot where the format names those after their variables.
    fn found(&self, given: &Tensor) -> Option<(&Tensor, &[u8])> {
        let is_slot = |tensor: &Tensor| tensor.slot.is_some() && tensor.slot == given.slot;
        let tensors = &self.back.tensors;
        let id = tensors.iter().position(|tensor| tensor.name == given.name);
        let id = id.or_else(|| tensors.iter().position(is_slot))?;
        Some((tensors.get(id)?, self.back_values.get(id)?))
    }
}

/// Whether a loss of this kind means that a tensor is not stored by itself.
fn drops_value(kind: LossKind) -> bool {
    kind == LossKind::Merged || Role::ALL.iter().any(|role| LossKind::of_dropping(*role) == kind)
}

/// Whether a loss of this kind means that other values are stored.
fn changes_value(kind: LossKind) -> bool {
    matches!(kind, LossKind::Narrowed | LossKind::Quantized | LossKind::Clipped | LossKind::Dequantized)
}

/// The axes in the order in which they come back.
fn stored_axes(given: &Tensor, placement: &Placement, found: &Tensor) -> Option<Box<[Axis]>> {
    let axes = given.axes.as_ref()?;
    if !is_turned(given, placement, found) {
        return Some(axes.clone());
    }
    placement.encoding.order.iter().map(|axis| axes.get(*axis).copied()).collect()
}

/// Whether the tensor's own axes come back in the order in which they are stored. Square ones show it by their names.
fn is_turned(given: &Tensor, placement: &Placement, found: &Tensor) -> bool {
    found.shape != given.shape
        || matches!((&given.axes, &found.axes), (Some(given), Some(found)) if {
            let stored = placement.encoding.order.iter().map(|axis| given.get(*axis));
            given != found && stored.eq(found.iter().map(Some))
        })
}

/// The value comes back in the dtype and, if the format has one of its own, in the axis order in which it was stored. Formats that
/// have small floats only as what wider ones are stored in give it back in the wider dtype.
fn check_value(
    what: &str,
    (given, value): (&Tensor, &[u8]),
    placement: &Placement,
    (found, again): (&Tensor, &[u8]),
) {
    let encoding = &placement.encoding;
    if encoding.scaling().is_some() || placement.shape().is_some() || !encoding.tiles().is_empty() {
        return;
    }
    let stored = encoding.dtype;
    let is_widened = (stored, found.dtype) == (DType::F16, DType::F32);
    assert!(
        found.dtype == stored || is_widened,
        "{what} is stored as {stored} and comes back as {}",
        found.dtype
    );
    let (shape, value) = match is_turned(given, placement, found) {
        false => (given.shape.clone(), value.to_vec()),
        true => (given.shape.permuted(&encoding.order), permuted(given, value, &encoding.order)),
    };
    assert!(found.shape == shape, "{what} of shape {shape} comes back with the shape {}", found.shape);
    let value = cast(given.dtype, stored, &value);
    let Some(value) = value.and_then(|value| cast(stored, found.dtype, &value)) else { return };
    // What is no number has several forms, which widening may change.
    let is_same = |(one, other): (&[u8; 4], &[u8; 4])| {
        let (one, other) = (f32::from_le_bytes(*one), f32::from_le_bytes(*other));
        one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
    };
    let comes_back = match is_widened && again.len() == value.len() {
        true => again.as_chunks().0.iter().zip(value.as_chunks().0).all(is_same),
        false => again == value,
    };
    assert!(comes_back, "{what} was {} and comes back as {}", shown(&value), shown(again));
}
