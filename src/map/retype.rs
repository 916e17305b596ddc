//! Changes the dtype of weights.

use ckpt_api::{Contents, DType, Error, Loss, LossKind, Result, Role};

/// Changes the dtype of every floating-point weight; returns the losses.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a dtype to which floating-point numbers cannot be converted.
pub(super) fn retype(contents: &mut Contents, dtype: DType) -> Result<Vec<Loss>> {
    if !dtype.is_float() || !crate::transform::castable(DType::F32, dtype) {
        let known =
            DType::ALL.iter().filter(|to| to.is_float() && crate::transform::castable(DType::F32, **to));
        return Err(Error::usage("weights cannot be converted to this dtype")
            .found(dtype.name())
            .expected(known.map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ")));
    }
    let mut losses = Vec::new();
    for tensor in &mut contents.checkpoint.tensors {
        if tensor.role == Role::Weight && tensor.dtype.is_float() && tensor.dtype != dtype {
            let kind = if crate::transform::exact(tensor.dtype, dtype) {
                LossKind::Retyped
            } else {
                LossKind::Narrowed
            };
            losses.push(Loss::new(
                kind,
                &tensor.name,
                format!("{} becomes {dtype}, as requested", tensor.dtype),
            ));
            tensor.dtype = dtype;
        }
    }
    Ok(losses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Shape, Tensor};

    #[test]
    fn only_floating_point_weights_get_another_dtype() {
        let scalar = |name, dtype| Tensor::new(name, dtype, Shape::scalar());
        let mut contents = Contents::default();
        contents.checkpoint.tensors =
            vec![scalar("a", DType::I32), scalar("b", DType::F32), scalar("c", DType::F32)];
        contents.checkpoint.tensors[1].role = Role::Optimizer;
        let losses = retype(&mut contents, DType::F16).unwrap();
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].subject.as_str(), losses[0].kind), ("c", LossKind::Narrowed));
        assert_eq!(retype(&mut contents, DType::I8).unwrap_err().kind(), ckpt_api::Kind::Usage);
    }
}
