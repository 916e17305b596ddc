//! Integers with scales and zero points, read as the numbers that they stand for.

use super::Source;
use ckpt_api::{
    Affine, Computed, Contents, DType, Encoding, Error, Extents, Loss, LossKind, Operation, Packing,
    Placement, Quantization, Result, Role, RunNumbers, Tensor,
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
        && encoding.packing == Packing::Bytes
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
        Computed::new(extent.clone(), encoding.clone()).with_operations(operations).into_extent()
    });
    let extents: Extents = computed.transpose()?.into_iter().collect();
    Ok(placement
        .clone()
        .with_extents(extents)
        .with_encoding(Encoding::new(DType::F32, encoding.order.clone())))
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
