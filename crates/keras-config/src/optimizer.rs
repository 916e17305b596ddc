//! The variables of an optimizer: a counter, the learning rate, and slots for each variable that it trains.

use super::model::{Generation, Layer, Optimizer};
use super::variables::Variable;
use ckpt_api::{Role, Slot};
use serde_json::Value;

/// Most optimizers that wrap each other.
const MAX_WRAPPED: usize = 4;

/// A variable of an optimizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizerVariable {
    /// Its dataset in `.weights.h5`, such as `optimizer/vars/2`.
    pub path: String,
    /// Its position among the optimizer's variables, which is that in the `weight_names` of `optimizer_weights` in
    /// `.h5`.
    pub position: usize,
    /// `iteration`, `learning_rate`, or the slot's name.
    pub name: String,
    /// What the tensor is for.
    pub tensor_role: Role,
    /// The variable that it is a slot of, by the name of [`Variable::name`].
    pub slot: Option<Slot>,
}

/// The slots of a class of optimizers: groups of which each is made for all variables before the next one.
type Slots = Vec<Vec<&'static str>>;

impl Optimizer {
    /// Reads an optimizer: `compile_config.optimizer` of a `.keras` file, `optimizer_config` of an `.h5` file's
    /// `training_config`. `None` for JSON of another form.
    pub(super) fn parse(value: &Value, generation: Generation) -> Option<Optimizer> {
        let mut options = Layer::parse(value)?;
        let mut group = "optimizer".to_owned();
        for _ in 0..MAX_WRAPPED {
            let Some(inner) = options.wrapped("inner_optimizer") else { break };
            options = inner;
            group.push_str("/inner_optimizer");
        }
        Some(Optimizer { class: options.class.clone(), options, generation, group })
    }

    /// Reads the attribute `training_config` of an `.h5` file. `None` for a text of another form.
    pub fn from_training_config(text: &str, generation: Generation) -> Option<Optimizer> {
        let value = super::json::parse(text).ok()?;
        Optimizer::parse(value.get("optimizer_config")?, generation)
    }

    /// Returns the optimizer's variables for the variables that it trains, in its order. `rank` is the number of axes
    /// of a variable.
    ///
    /// `None` for a class whose variables are not known, or one of the program's own.
    pub fn variables(
        &self,
        trained: &[&Variable],
        rank: impl Fn(&Variable) -> Option<usize>,
    ) -> Option<Vec<OptimizerVariable>> {
        let slots = self.slots()?;
        let mut list = Listing { group: &self.group, found: Vec::new() };
        list.add("iteration", Role::Counter, None);
        if self.has_learning_rate() {
            list.add("learning_rate", Role::Optimizer, None);
        }
        let before = [("use_ema", "average"), ("gradient_accumulation_steps", "gradient_accumulator")];
        let before = before.into_iter().filter(|(option, _)| self.options.flag(option, false));
        for group in before.map(|(_, name)| vec![name]).chain(slots) {
            for variable in trained {
                for name in &group {
                    // Keras 2 keeps rows and columns for matrices alone, Keras 3 has numbers in place of the others.
                    let is_factor = matches!(*name, "r" | "c") && self.generation == Generation::Keras2;
                    if !is_factor || rank(variable)? >= 2 {
                        list.add(name, Role::Optimizer, Some(variable));
                    }
                }
            }
        }
        if self.class == "Nadam" && self.generation == Generation::Keras3 {
            list.add("u_product", Role::Optimizer, None);
        }
        Some(list.found)
    }

    /// Whether the learning rate is a variable of the optimizer: a number in Keras 3, and not a schedule.
    fn has_learning_rate(&self) -> bool {
        let is_number = self.options.config.get("learning_rate").is_none_or(Value::is_number);
        self.generation == Generation::Keras3 && is_number
    }

    fn slots(&self) -> Option<Slots> {
        if !self.options.is_builtin() || self.generation == Generation::Keras1 {
            return None;
        }
        let number = |key: &str| self.options.float(key, 0.0).ok();
        Some(match self.class.as_str() {
            "Adam" | "AdamW" => {
                let mut slots = vec![vec!["m", "v"]];
                slots.extend(self.options.flag("amsgrad", false).then(|| vec!["vhat"]));
                slots
            }
            "Nadam" | "Lamb" => vec![vec!["m", "v"]],
            "Adamax" => vec![vec!["m", "u"]],
            // Keras 2 keeps the momentum of 0, too.
            "SGD" if self.generation == Generation::Keras2 || number("momentum")? != 0.0 => {
                vec![vec!["momentum"]]
            }
            "SGD" => Vec::new(),
            "RMSprop" => {
                let mut slots = vec![vec!["rms"]];
                slots.extend((number("momentum")? > 0.0).then(|| vec!["momentum"]));
                slots.extend(self.options.flag("centered", false).then(|| vec!["mg"]));
                slots
            }
            "Lion" => vec![vec!["momentum"]],
            "Adagrad" => vec![vec!["accumulators"]],
            "Adadelta" => vec![vec!["accumulated_grads", "accumulated_delta_vars"]],
            "Ftrl" => vec![vec!["accumulators", "linears"]],
            "Adafactor" => vec![vec!["r", "c", "v"]],
            _ => return None,
        })
    }
}

/// Numbers an optimizer's variables.
struct Listing<'a> {
    group: &'a str,
    found: Vec<OptimizerVariable>,
}

impl Listing<'_> {
    fn add(&mut self, name: &str, tensor_role: Role, of: Option<&Variable>) {
        let position = self.found.len();
        let slot = of.map(|variable| Slot { variable: variable.name.as_str().into(), name: name.to_owned() });
        let path = format!("{}/vars/{position}", self.group);
        self.found.push(OptimizerVariable { path, position, name: name.to_owned(), tensor_role, slot });
    }
}
