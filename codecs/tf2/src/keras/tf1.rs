//! TensorFlow 1's names: `dense/kernel`, `dense/kernel/Adam`, `beta1_power`, `global_step`; no object graph.

use super::Plan;
use super::keras2::full_name;
use super::layers::Model;
use super::optimizer::{Kind, Optimizer};
use ckpt_api::{Loss, LossKind, Result};

pub(super) fn name<'a>(mut plan: Plan<'a>, model: &Model, optimizer: Option<&Optimizer>) -> Result<Plan<'a>> {
    for layer in &model.layers {
        for variable in &layer.variables {
            let key = full_name(layer, variable);
            plan.store(variable.tensor, &variable.order, &key);
            for kept in optimizer.map(|optimizer| optimizer.kept(variable)).unwrap_or_default() {
                if let Some(slot) = slot_name(kept.name) {
                    plan.store(kept.tensor, &kept.order, &format!("{key}/{slot}"));
                }
            }
        }
    }
    let number = |names: &[&str]| optimizer.and_then(|optimizer| optimizer.number(names));
    if let Some(steps) = plan.global_step().or_else(|| number(&["iteration"])) {
        plan.store(steps, &[], "global_step");
    }
    if optimizer.is_some_and(|optimizer| optimizer.kind == Kind::Adam) {
        for power in ["beta1_power", "beta2_power"] {
            match number(&[power]) {
                Some(id) => plan.store(id, &[], power),
                None => plan.naming.losses.push(Loss::new(
                    LossKind::OptimizerDropped,
                    power,
                    "the source has not this power of Adam's decay rate, but the number of steps: leave it out of \
                     the Saver's var_list, or set it",
                )),
            }
        }
    }
    Ok(plan)
}

/// `None` for what TensorFlow 1's optimizers do not have.
fn slot_name(canonical: &str) -> Option<&'static str> {
    Some(match canonical {
        "m" => "Adam",
        "v" => "Adam_1",
        "momentum" => "Momentum",
        _ => return None,
    })
}
