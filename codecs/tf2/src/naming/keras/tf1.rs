//! TensorFlow 1's keys: `dense/kernel`, `dense/kernel/Adam`, `beta1_power`, `global_step`; no object graph.

use super::builder::Builder;
use super::keras2::full_name;
use super::layers::Model;
use super::optimizer::{Kind, Optimizer};
use ckpt_api::{Loss, LossKind, Result};

pub(super) fn assign<'a>(
    mut builder: Builder<'a>,
    model: &Model,
    optimizer: Option<&Optimizer>,
) -> Result<Builder<'a>> {
    for layer in &model.layers {
        for variable in &layer.variables {
            let key = full_name(layer, variable);
            builder.store(variable.tensor, &variable.order, &key);
            for slot in optimizer.map(|optimizer| optimizer.slots_of(variable)).unwrap_or_default() {
                if let Some(name) = slot_name(slot.name) {
                    builder.store(slot.tensor, &slot.order, &format!("{key}/{name}"));
                }
            }
        }
    }
    let number = |names: &[&str]| optimizer.and_then(|optimizer| optimizer.number(names));
    if let Some(steps) = builder.global_step().or_else(|| number(&["iteration"])) {
        builder.store(steps, &[], "global_step");
    }
    if optimizer.is_some_and(|optimizer| optimizer.kind == Kind::Adam) {
        for power in ["beta1_power", "beta2_power"] {
            match number(&[power]) {
                Some(id) => builder.store(id, &[], power),
                None => builder.naming.losses.push(Loss::new(
                    LossKind::OptimizerDropped,
                    power,
                    "the source has the number of steps instead of this power of Adam's decay rate: omit it from \
                     the Saver's var_list, or set it after restoring",
                )),
            }
        }
    }
    Ok(builder)
}

/// Returns the name of a slot, or `None` for one that TensorFlow 1's optimizers do not have.
fn slot_name(canonical: &str) -> Option<&'static str> {
    Some(match canonical {
        "m" => "Adam",
        "v" => "Adam_1",
        "momentum" => "Momentum",
        _ => return None,
    })
}
