//! The axes of the tensors of layers.

use ckpt_api::{Axis, Error, Result, Tensor};

/// The axes of a tensor in the order in which `wanted` lists them; those of length 1 that it does not list are last.
///
/// ```
/// use ckpt_api::{Axis, DType, Shape, Tensor};
/// let mut kernel = Tensor::new("kernel", DType::F32, Shape::new([3, 1, 8])?);
/// kernel.axes = Some([Axis::In, Axis::Unit, Axis::Out].into());
/// assert_eq!(ckpt_graph::axes::order(&kernel, &[Axis::Out, Axis::In])?, [2, 0, 1]);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a tensor that lacks an axis of `wanted`, has another one, or does not state its axes.
pub fn order(tensor: &Tensor, wanted: &[Axis]) -> Result<Vec<usize>> {
    let wrong = |found: String| {
        let names: Vec<&str> = wanted.iter().map(|axis| axis.name()).collect();
        Error::unsupported("the axes of a tensor are not those that its layer needs")
            .tensor(&tensor.name)
            .found(found)
            .expected(format!("axes {}", names.join(" ")))
    };
    let axes = match &tensor.axes {
        Some(axes) => axes.clone(),
        None if tensor.shape.rank() == 1 && wanted.len() == 1 => wanted.into(),
        None => return Err(wrong("no meaning of its axes".to_owned())),
    };
    let place = |axis: &Axis| {
        let own = axes.iter().position(|own| own == axis);
        // The inputs of a dense layer are the features of a sparse one.
        own.or_else(|| axes.iter().position(|own| *axis == Axis::Feature && *own == Axis::In))
    };
    let mut order = Vec::with_capacity(axes.len());
    for axis in wanted {
        order.push(place(axis).ok_or_else(|| wrong(format!("no axis {}", axis.name())))?);
    }
    for (at, len) in tensor.shape.iter().enumerate() {
        if !order.contains(&at) {
            match len {
                1 => order.push(at),
                _ => return Err(wrong(format!("shape {}", tensor.shape))),
            }
        }
    }
    Ok(order)
}
