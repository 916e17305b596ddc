//! Changes the dtype of weights.

use ckpt_api::{Contents, DType, Error, Loss, LossKind, Result, Role};

/// Changes the dtype of every floating-point weight and of second copies of weights, which stay equal; returns the
/// losses.
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
        let is_weight = matches!(tensor.role, Role::Weight | Role::Duplicate);
        if is_weight && tensor.dtype.is_float() && tensor.dtype != dtype {
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
        let names = ["integers", "slot", "weight", "copy"];
        let tensor = |name| scalar(name, if name == "integers" { DType::I32 } else { DType::F32 });
        contents.checkpoint.tensors = names.map(tensor).to_vec();
        contents.checkpoint.tensors[1].role = Role::Optimizer;
        contents.checkpoint.tensors[3].role = Role::Duplicate;
        let losses = retype(&mut contents, DType::F16).unwrap();
        let lost: Vec<_> = losses.iter().map(|loss| (loss.subject.as_str(), loss.kind)).collect();
        assert_eq!(lost, [("weight", LossKind::Narrowed), ("copy", LossKind::Narrowed)]);
        assert_eq!(retype(&mut contents, DType::I8).unwrap_err().kind(), ckpt_api::Kind::Usage);
    }
}
