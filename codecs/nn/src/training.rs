//! The JSON's `training`: preserves it, reports unexpected values, and converts it between dialects.

use crate::format::{Dialect, STAGES_KEPT};
use crate::summary::Summary;
use ckpt_api::{Loss, LossKind};
use serde_json::{Map, Value};
use std::fmt;

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
        let detail = format!(
            "without the first {}: dialect b keeps the last {STAGES_KEPT}",
            ckpt_api::count(dropped, "stage")
        );
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
        let detail = format!("of {}: dialect a has no such field", ckpt_api::count(histories, "stage"));
        losses.push(Loss::new(LossKind::MetadataDropped, "nn.training.stages.lr_history", detail));
    }
}

/// The object `training`, without its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Whether the value of each field of [`TRAINING`] has the expected type; `None` for a field that is missing.
    fits: [Option<bool>; TRAINING.len()],
    stages: u32,
    /// Whether a stage lacks `lr_history` alone.
    without: bool,
    /// Whether a stage has `lr_history`.
    with: bool,
    odd: Vec<Oddity>,
}

/// One training stage, without its values.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// Whether the value of each field of [`STAGE`] has the expected type; `None` for a field that is missing.
    fits: [Option<bool>; STAGE.len()],
}

/// A stage or field whose value has an unexpected type. It has no effect, and is preserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oddity {
    /// The stage; `None` for a field of `training`.
    stage: Option<u32>,
    /// The field's place in the list of fields; `None` for a stage that is no object.
    field: Option<u8>,
}

impl History {
    /// The key of the training stages.
    pub(crate) const STAGES: &str = STAGES;

    /// Adds a field of `training`.
    pub(crate) fn field(&mut self, key: &str, value: &Summary) {
        set(&mut self.fits, TRAINING, key, value);
    }

    /// Adds a stage, whose fields are those of `stage` if it is an object.
    pub(crate) fn add_stage(&mut self, stage: &Stage, is_object: bool) {
        let index = Some(self.stages);
        self.stages = self.stages.saturating_add(1);
        if !is_object {
            self.odd.push(Oddity { stage: index, field: None });
            return;
        }
        let has = |(fit, (key, _)): (&Option<bool>, &(&str, Type))| fit.is_some() || *key == LR_HISTORY;
        let is_complete = stage.fits.iter().zip(STAGE).all(has);
        let has_rates =
            stage.fits.iter().zip(STAGE).any(|(fit, (key, _))| fit.is_some() && *key == LR_HISTORY);
        self.with |= has_rates;
        self.without |= is_complete && !has_rates;
        self.odd.extend(misfits(&stage.fits).map(|field| Oddity { stage: index, field: Some(field) }));
    }

    /// Forgets the stages.
    pub(crate) fn clear_stages(&mut self) {
        *self = History { fits: self.fits, ..History::default() };
    }

    /// Returns the dialect that the stages show, as whether a stage lacks, and whether one has, the field `lr_history`
    /// of dialect b. A stage that lacks more fields shows nothing.
    pub(crate) fn evidence(&self) -> (bool, bool) {
        (self.without, self.with)
    }

    /// Returns whether there is a training stage.
    pub(crate) fn has_stages(&self) -> bool {
        self.stages > 0
    }

    /// Returns the fields whose values have unexpected types.
    pub(crate) fn oddities(&self) -> Vec<Oddity> {
        let own = misfits(&self.fits).map(|field| Oddity { stage: None, field: Some(field) });
        own.chain(self.odd.iter().copied()).collect()
    }
}

impl Stage {
    /// Adds a field.
    pub(crate) fn field(&mut self, key: &str, value: &Summary) {
        set(&mut self.fits, STAGE, key, value);
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = if self.stage.is_some() { STAGE } else { TRAINING };
        f.write_str("training")?;
        if let Some(stage) = self.stage {
            write!(f, ".{STAGES}[{stage}]")?;
        }
        match self.field.and_then(|field| fields.get(usize::from(field))) {
            Some((key, _)) => write!(f, ".{key}"),
            None => Ok(()),
        }
    }
}

fn set(fits: &mut [Option<bool>], fields: &[(&str, Type)], key: &str, value: &Summary) {
    for (own, (name, kind)) in fits.iter_mut().zip(fields) {
        if *name == key {
            *own = Some(*value == Summary::Null || kind.fits(value));
        }
    }
}

/// The places of the fields that do not fit.
fn misfits(fits: &[Option<bool>]) -> impl Iterator<Item = u8> {
    (0..).zip(fits).filter(|(_, fit)| **fit == Some(false)).map(|(field, _)| field)
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

impl Type {
    fn fits(self, value: &Summary) -> bool {
        match (self, value) {
            (Type::Count, Summary::Number(number)) => number.is_u64(),
            (Type::Text, Summary::Text(_)) | (Type::Objects, Summary::Array(_)) => true,
            (Type::Numbers, Summary::Array(elements)) | (Type::Parameters, Summary::Object(elements)) => {
                elements.all_numbers
            }
            (Type::Texts, Summary::Array(elements)) => elements.all_texts,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use ckpt_api::Rules;
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

    fn history(training: &Value) -> History {
        let text = json!({ "layers": [{ "type": "ReLU" }], "training": training }).to_string();
        Block::parse(&text, &mut Rules::default()).unwrap().history.unwrap()
    }

    fn oddities(training: &Value) -> Vec<String> {
        history(training).oddities().iter().map(Oddity::to_string).collect()
    }

    #[test]
    fn values_of_another_type_are_named() {
        let stages =
            json!([{ "epochs": 3, "optimizer_params": null, "zzz": 1 }, { "epochs": -1, "loss": [] }, 7]);
        assert_eq!(
            oddities(&json!({ "stages": stages, "loss_history": [0.5, "x"], "optimizer": 2 })),
            [
                "training.loss_history",
                "training.optimizer",
                "training.stages[1].epochs",
                "training.stages[1].loss",
                "training.stages[2]"
            ]
        );
        assert!(oddities(&untrained()).is_empty());
    }

    #[test]
    fn a_stage_with_all_fields_but_lr_history_shows_dialect_a() {
        let mut stage: Map<String, Value> =
            STAGE.iter().map(|(key, _)| ((*key).to_owned(), Value::Null)).collect();
        let evidence = |stage: &Map<String, Value>| history(&json!({ "stages": [stage] })).evidence();
        assert_eq!(evidence(&stage), (false, true));
        stage.remove(LR_HISTORY);
        assert_eq!(evidence(&stage), (true, false));
        stage.remove("epochs");
        assert_eq!(evidence(&stage), (false, false));
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
