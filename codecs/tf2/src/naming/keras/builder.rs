//! Collects a naming.

use super::style::Style;
use crate::describe::OPTIMIZER_NUMBER;
use crate::format::VARIABLE_VALUE;
use crate::naming::{Assignment, ExtraEntry, Naming};
use ckpt_api::{Checkpoint, DType, Loss, LossKind, Role, Shape, Tensor, TensorId};

/// Collects a naming.
pub(super) struct Builder<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) assigned: Vec<Option<Assignment>>,
    pub(super) naming: Naming,
}

impl Builder<'_> {
    /// Assigns `key` to a tensor, whose stored axis order is `order`.
    pub(super) fn store(&mut self, id: TensorId, order: &[usize], key: &str) {
        if let Some(assigned) = self.assigned.get_mut(id.0) {
            *assigned = Some(Assignment { key: key.into(), order: order.to_vec().into() });
        }
    }

    /// Assigns `key` to the save counter, or to a new one if there is none: TensorFlow expects one.
    pub(super) fn store_counter(&mut self, key: &str) {
        match self.checkpoint.tensors.iter().position(is_save_counter) {
            Some(id) => self.store(TensorId(id), &[], key),
            None => self.naming.extra.push(ExtraEntry {
                key: key.into(),
                dtype: DType::I64,
                shape: Shape::scalar(),
                value: 1i64.to_le_bytes().to_vec(),
            }),
        }
    }

    /// Returns the tensor `global_step`.
    pub(super) fn global_step(&self) -> Option<TensorId> {
        let is = |tensor: &Tensor| tensor.metadata.text("tf2", OPTIMIZER_NUMBER) == Some("global_step");
        self.checkpoint.tensors.iter().position(|tensor| is(tensor) && tensor.shape.rank() == 0).map(TensorId)
    }

    /// Returns the naming, with a loss for each tensor without a key.
    pub(super) fn finish(self, style: Style) -> Naming {
        let Builder { checkpoint, assigned, mut naming } = self;
        let unassigned = checkpoint.tensors.iter().zip(&assigned).filter(|(_, assigned)| assigned.is_none());
        let losses = unassigned.map(|(tensor, _)| {
            let kind = LossKind::of_dropping(tensor.role);
            Loss::new(kind, &tensor.name, loss_detail(tensor.role, style))
        });
        naming.losses.splice(..0, losses);
        naming.tensors = assigned;
        naming
    }
}

/// Returns why a tensor of this role has no key.
fn loss_detail(role: Role, style: Style) -> String {
    let style = style.name();
    match role {
        Role::Duplicate => "it duplicates another tensor, which is stored".to_owned(),
        Role::Bookkeeping => format!("names={style} writes a new object graph, or none"),
        Role::Weight => {
            format!("no layer of the graph uses it, and names={style} stores the layers' variables")
        }
        _ => format!("names={style} cannot store it"),
    }
}

fn is_save_counter(tensor: &Tensor) -> bool {
    let path = tensor.name.strip_suffix(VARIABLE_VALUE).unwrap_or(&tensor.name);
    path.rsplit('/').next() == Some("save_counter")
        && tensor.role == Role::Counter
        && tensor.dtype == DType::I64
        && tensor.shape.rank() == 0
}

/// Returns the key of the variable at a path: `PATH/.ATTRIBUTES/VARIABLE_VALUE`.
pub(super) fn key(path: &str) -> String {
    format!("{path}{VARIABLE_VALUE}")
}
