//! Tensors as sums: terms that are added up.

use super::assembly::disassembled;
use super::placed::PlacedTensor;
use super::reorder::reorder;
use crate::recipe::{Join, Target};
use ckpt_api::{DType, Error, Placement, Result, Setting, Tensor, text};

/// A tensor that is added to a target where that is written.
#[derive(Clone, Debug)]
pub(crate) struct Addend {
    /// The name of the target.
    pub(crate) target: String,
    pub(crate) tensor: Tensor,
    pub(crate) placement: Placement,
}

/// The terms of a sum after its first.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for terms of different shapes, [`ckpt_api::Kind::Unsupported`] for those that are no
/// 32-bit floats.
pub(super) fn addends(target: &Target, sources: &[usize], tensors: &[PlacedTensor]) -> Result<Vec<Addend>> {
    let all = sources.iter().filter_map(|id| tensors.get(*id).cloned());
    let steps = &target.recipe.steps;
    let terms: Vec<PlacedTensor> = match &target.recipe.join {
        Join::Sum => all.map(|term| reorder(term, steps)).collect::<Result<_>>()?,
        join @ Join::Disassembled { places, .. } if places.len() > 1 => {
            let all: Vec<PlacedTensor> = all.collect();
            places.iter().map(|place| disassembled(&all, join, place, steps)).collect::<Result<_>>()?
        }
        _ => return Ok(Vec::new()),
    };
    check_terms(&terms)?;
    let rest = terms.into_iter().skip(1);
    let named =
        |PlacedTensor { tensor, placement }| Addend { target: target.name.clone(), tensor, placement };
    Ok(rest.map(named).collect())
}

/// Checks that terms can be added: 32-bit floats of one shape.
fn check_terms(terms: &[PlacedTensor]) -> Result<()> {
    let Some(first) = terms.first().map(|term| &term.tensor) else { return Ok(()) };
    for PlacedTensor { tensor, .. } in terms {
        if tensor.dtype != DType::F32 || tensor.quantization.is_some() {
            return Err(Error::unsupported("only tensors of f32 can be added")
                .tensor(&tensor.name)
                .found(tensor.dtype.name())
                .help(text!["convert to f32 first, with ", Setting::DTYPE.of("f32")]));
        }
        if tensor.shape != first.shape {
            return Err(Error::mapping("tensors of different shapes cannot be added")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
                .expected(format!("{}, as '{}'", first.shape, first.name)));
        }
    }
    Ok(())
}
