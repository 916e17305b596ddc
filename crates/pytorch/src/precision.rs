//! The dtype in which the modules hold their weights.

use super::tensors::Tensors;
use ckpt_api::{DType, Graph, first_few};
use std::collections::BTreeSet;

/// The dtypes of the floating-point tensors that a graph uses.
pub(super) struct Precision(BTreeSet<DType>);

impl Precision {
    pub(super) fn of(graph: &Graph, tensors: &Tensors<'_>) -> Self {
        let used = graph.tensors().filter_map(|name| tensors.get(name));
        Precision(used.map(|tensor| tensor.dtype).filter(|dtype| dtype.is_float()).collect())
    }

    /// PyTorch's name of the dtype, if all tensors have one that is not the default of modules, f32.
    pub(super) fn of_module(&self) -> Option<&'static str> {
        match self.0.first() {
            Some(DType::F64) if self.0.len() == 1 => Some("torch.float64"),
            Some(DType::F16) if self.0.len() == 1 => Some("torch.float16"),
            Some(DType::Bf16) if self.0.len() == 1 => Some("torch.bfloat16"),
            _ => None,
        }
    }

    /// A note on tensors that lose their dtype when modules load them.
    pub(super) fn note(&self) -> Option<String> {
        let is_kept = self.of_module().is_some() || self.0.iter().all(|dtype| *dtype == DType::F32);
        let dtypes: Vec<String> = self.0.iter().map(DType::to_string).collect();
        (!is_kept).then(|| {
            format!(
                "PyTorch's modules hold weights as f32 and convert those of other dtypes: {}",
                first_few(&dtypes, 4)
            )
        })
    }
}
