//! Integers with scales and zero points, read as the numbers that they stand for.

use super::Source;
use ckpt_api::{
    Affine, Along, Computed, Contents, DType, Encoding, Error, Extent, Extents, FieldOrder, Loss, LossKind,
    Operation, PackedIntegers, Packing, Placement, Quantization, Result, Role, RunNumbers, Tensor,
};
use std::borrow::Cow;

impl Source {
    /// The same checkpoint with integers that have scales as numbers: each less its zero point, times its scale, in 32-bit
    /// floats.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for integers that are not stored whole; [`ckpt_api::Kind::Corrupt`] for a scale that is too
    /// large for 32 bits.
    pub(crate) fn with_scaled_integers(&self) -> Result<Cow<'_, Source>> {
        let is_scaled = |tensor: &Tensor| {
            let is_weight = matches!(tensor.role, Role::Weight | Role::Duplicate);
            is_weight && tensor.quantization.as_ref().and_then(Quantization::affine).is_some()
        };
        if !self.contents.checkpoint.tensors.iter().any(is_scaled) {
            return Ok(Cow::Borrowed(self));
        }
        let mut contents = Contents::clone(&self.contents);
        let tensors = contents.checkpoint.tensors.iter_mut().zip(&mut contents.placements);
        for (tensor, placement) in tensors.filter(|(tensor, _)| is_scaled(tensor)) {
            let quantization = tensor.quantization.take();
            let Some(affine) = quantization.as_ref().and_then(Quantization::affine) else { continue };
            *placement = numbers(tensor, placement, affine).map_err(|error| error.tensor(&tensor.name))?;
            let detail = format!("stored as {} with scales, and now as plain numbers", tensor.dtype);
            contents.losses.push(Loss::new(LossKind::Dequantized, tensor.name.to_string(), detail));
            tensor.dtype = DType::F32;
        }
        Ok(Cow::Owned(self.with_contents(contents)))
    }
}

/// Where the numbers of a tensor are: computed from its integers.
fn numbers(tensor: &Tensor, placement: &Placement, affine: &Affine) -> Result<Placement> {
    let encoding = &placement.encoding;
    let is_plain = encoding.tiles().is_empty()
        && encoding.blocks().is_none()
        && encoding.scaling().is_none()
        && placement.window().is_none();
    let extent = match &placement.extents[..] {
        _ if tensor.shape.elements() == 0 => None,
        [extent] if is_plain && extent.region().is_none() && !extent.is_computed() => Some(extent),
        _ => {
            return Err(Error::unsupported(
                "integers with scales that are not stored whole cannot be dequantized",
            )
            .help("save the tensor whole, or dequantized"));
        }
    };
    let computed = extent.map(|extent| -> Result<_> {
        let operations = operations(tensor, encoding, affine);
        stored(tensor, extent, encoding)?.with_operations(operations).into_extent()
    });
    let extents: Extents = computed.transpose()?.into_iter().collect();
    Ok(placement
        .clone()
        .with_extents(extents)
        .with_encoding(Encoding::new(DType::F32, encoding.order.clone())))
}

/// The stored integers as floats.
fn stored(tensor: &Tensor, extent: &Extent, encoding: &Encoding) -> Result<Computed> {
    if encoding.packing == Packing::Bytes {
        return Ok(Computed::new(extent.clone(), encoding.clone()));
    }
    let (bits, is_signed) = match encoding.dtype {
        DType::I4 => (4, true),
        DType::U4 => (4, false),
        DType::I2 => (2, true),
        DType::U2 => (2, false),
        other => {
            return Err(Error::unsupported("packed elements with scales cannot be dequantized")
                .found(other.name())
                .help("save the tensor dequantized"));
        }
    };
    // The last byte may be filled up, so that its elements are not whole ones of the encoding.
    let packed = PackedIntegers::new(bits, [1, tensor.shape.elements()], Along::Row, FieldOrder::Dense);
    let packed = if is_signed { packed.signed() } else { packed };
    Ok(Computed::new(extent.clone(), Encoding::new(DType::U8, vec![0])).with_packed(packed))
}

fn operations(tensor: &Tensor, encoding: &Encoding, affine: &Affine) -> Vec<Operation> {
    // Elements of one index of the axis: those of the axes that are stored after it.
    let after = encoding.order.iter().rev().take_while(|axis| affine.axis() != Some(**axis));
    let run: u64 = after.filter_map(|axis| tensor.shape.get(*axis)).product();
    let runs = |numbers: Box<[f64]>| RunNumbers { numbers, run: run.max(1) };
    // What writes such tensors rounds the scale of a whole one to 32 bits, and those of an axis not.
    let scales = match affine.axis() {
        None => affine.scales().iter().map(|scale| f64::from(*scale as f32)).collect(),
        Some(_) => affine.scales().into(),
    };
    let mut operations = vec![Operation::MultiplyRuns(runs(scales))];
    if affine.zero_points().iter().any(|zero| *zero != 0.0) {
        operations.insert(0, Operation::SubtractRuns(runs(affine.zero_points().into())));
    }
    operations
}
