//! The JSON's `training`: preserves it, reports unexpected values, and converts it between dialects.

use crate::format::{Dialect, STAGES_KEPT};
use ckpt_api::{Loss, LossKind};
use serde_json::{Map, Value};

/// Returns the value that DataCode writes for a net without training history.
pub(crate) fn untrained() -> Value {
    let field = |(key, _): &(&str, Type)| {
        let value = if *key == STAGES { Value::Array(Vec::new()) } else { Value::Null };
        ((*key).to_owned(), value)
    };
    Value::Object(TRAINING.iter().map(field).collect())
}

/// Converts every stage to the dialect `to`.
pub(crate) fn convert(training: &mut Map<String, Value>, to: Dialect, losses: &mut Vec<Loss>) {
    let Some(Value::Array(stages)) = training.get_mut(STAGES) else { return };
    if to == Dialect::B && stages.len() > STAGES_KEPT {
        let dropped = stages.len() - STAGES_KEPT;
        let detail =
            format!("the first {dropped} stages are left out: dialect b keeps the last {STAGES_KEPT}");
        losses.push(Loss::new(LossKind::MetadataDropped, "nn.training.stages", detail));
        stages.drain(..dropped);
    }
    let mut histories = 0u64;
    for stage in stages.iter_mut().filter_map(Value::as_object_mut) {
        match to {
            Dialect::A => {
                histories += u64::from(stage.remove(LR_HISTORY).is_some_and(|history| !history.is_null()));
            }
            Dialect::B => {
                stage.entry(LR_HISTORY).or_insert(Value::Null);
            }
        }
    }
    if histories > 0 {
        let detail = format!("{histories} stage(s) had one, and dialect a has no such field");
        losses.push(Loss::new(LossKind::MetadataDropped, "nn.training.stages.lr_history", detail));
    }
}

/// Returns the dialect that the stages show: only dialect b has the field `lr_history`. A stage that lacks more fields shows nothing.
pub(crate) fn evidence(training: &Map<String, Value>) -> (bool, bool) {
    let (mut without, mut with) = (false, false);
    let stages = training.get(STAGES).and_then(Value::as_array);
    for stage in stages.into_iter().flatten().filter_map(Value::as_object) {
        let complete = STAGE.iter().all(|(key, _)| *key == LR_HISTORY || stage.contains_key(*key));
        with |= stage.contains_key(LR_HISTORY);
        without |= complete && !stage.contains_key(LR_HISTORY);
    }
    (without, with)
}

/// Returns whether there is a training stage.
pub(crate) fn has_stages(training: &Map<String, Value>) -> bool {
    training.get(STAGES).and_then(Value::as_array).is_some_and(|stages| !stages.is_empty())
}

/// Returns the fields whose values have unexpected types. They have no effect, and are preserved.
pub(crate) fn oddities(training: &Map<String, Value>) -> Vec<String> {
    let mut odd = Vec::new();
    check("training", training, TRAINING, &mut odd);
    let stages = training.get(STAGES).and_then(Value::as_array);
    for (index, stage) in stages.into_iter().flatten().enumerate() {
        let path = format!("training.stages[{index}]");
        match stage {
            Value::Object(stage) => check(&path, stage, STAGE, &mut odd),
            _ => odd.push(path),
        }
    }
    odd
}

const STAGES: &str = "stages";
const LR_HISTORY: &str = "lr_history";

/// The type that the value of a field has if it is not null.
#[derive(Clone, Copy)]
enum Type {
    Count,
    Text,
    Numbers,
    Texts,
    Parameters,
    Objects,
}

const TRAINING: &[(&str, Type)] = &[
    ("accuracy_history", Type::Numbers),
    ("epochs", Type::Count),
    ("loss", Type::Text),
    ("loss_history", Type::Numbers),
    ("optimizer", Type::Text),
    (STAGES, Type::Objects),
    ("val_accuracy_history", Type::Numbers),
    ("val_loss_history", Type::Numbers),
];

const STAGE: &[(&str, Type)] = &[
    ("accuracy_history", Type::Numbers),
    ("epochs", Type::Count),
    ("frozen_layers", Type::Texts),
    ("frozen_params", Type::Count),
    ("loss", Type::Text),
    ("loss_history", Type::Numbers),
    (LR_HISTORY, Type::Numbers),
    ("optimizer_params", Type::Parameters),
    ("optimizer_type", Type::Text),
    ("trainable_params", Type::Count),
    ("val_accuracy_history", Type::Numbers),
    ("val_loss_history", Type::Numbers),
];

fn check(path: &str, object: &Map<String, Value>, fields: &[(&str, Type)], odd: &mut Vec<String>) {
    for (key, kind) in fields {
        if object.get(*key).is_some_and(|value| !value.is_null() && !fits(value, *kind)) {
            odd.push(format!("{path}.{key}"));
        }
    }
}

fn fits(value: &Value, kind: Type) -> bool {
    let all = |test: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    match kind {
        Type::Count => value.is_u64(),
        Type::Text => value.is_string(),
        Type::Numbers => all(Value::is_number),
        Type::Texts => all(Value::is_string),
        Type::Objects => value.is_array(),
        Type::Parameters => value.as_object().is_some_and(|map| map.values().all(Value::is_number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn training(stages: Value) -> Map<String, Value> {
        match json!({ "stages": stages }) {
            Value::Object(map) => map,
            _ => unreachable!(),
        }
    }

    #[test]
    fn dialect_b_keeps_the_last_ten_stages_and_says_that_it_dropped_others() {
        let mut twelve = training((0..12).map(|epochs| json!({ "epochs": epochs })).collect());
        let mut losses = Vec::new();
        convert(&mut twelve, Dialect::B, &mut losses);
        let stages = twelve["stages"].as_array().unwrap();
        assert_eq!((stages.len(), &stages[0]), (10, &json!({ "epochs": 2, "lr_history": null })));
        assert_eq!(losses.len(), 1);
    }

    #[test]
    fn dropping_an_lr_history_is_a_loss_only_where_it_says_something() {
        let mut losses = Vec::new();
        let mut empty = training(json!([{ "lr_history": null }]));
        convert(&mut empty, Dialect::A, &mut losses);
        assert_eq!((empty, losses.len()), (training(json!([{}])), 0));
        convert(&mut training(json!([{ "lr_history": [0.1] }])), Dialect::A, &mut losses);
        assert_eq!(losses.len(), 1);
    }

    #[test]
    fn values_of_another_type_are_named() {
        let odd = training(json!([{ "epochs": 3, "optimizer_params": null, "zzz": 1 }, { "epochs": -1 }, 7]));
        assert_eq!(oddities(&odd), ["training.stages[1].epochs", "training.stages[2]"]);
        let Value::Object(none) = untrained() else { unreachable!() };
        assert!(oddities(&none).is_empty());
    }

    #[test]
    fn the_published_schema_has_the_same_fields() {
        let schema: Value = serde_json::from_str(include_str!("../schemas/nn-metadata.schema.json")).unwrap();
        let keys = |pointer: &str| -> Vec<String> {
            schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
        };
        let names =
            |fields: &[(&str, Type)]| fields.iter().map(|(key, _)| (*key).to_owned()).collect::<Vec<_>>();
        assert_eq!(keys("/$defs/training/properties"), names(TRAINING));
        assert_eq!(keys("/$defs/stage/properties"), names(STAGE));
        assert_eq!(keys("/properties"), ["device", "layers", "training"]);
    }
}
