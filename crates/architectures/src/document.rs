//! A template as its file states it; JSON Schema: `schemas/architecture.schema.json`.

use super::expression::Expression;
use super::expression::Text;
use super::value::Value;
use ckpt_api::{Axis, DType};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A template.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// What people call the models, in a few words.
    pub(super) title: String,
    /// Whether it describes checkpoints that have its names, without being asked for.
    #[serde(default = "is_automatic")]
    pub(super) automatic: bool,
    /// Whether other models have its names, too, so that only `model_type` tells its own.
    #[serde(default)]
    pub(super) by_model_type: bool,
    /// Values of `model_type` in the configurations of models that the template describes; empty if there are none.
    #[serde(default)]
    pub(super) model_types: Vec<String>,
    /// Names of built-in mappings to the template's names.
    #[serde(default)]
    pub(super) mappings: Vec<String>,
    /// Files beside the checkpoint that configure a model, of which the first that exists is read.
    #[serde(default)]
    pub(super) configurations: Vec<String>,
    /// What may stand before all names: the variable `prefix`.
    #[serde(default = "no_prefix")]
    pub(super) prefixes: Vec<String>,
    /// Names of tensors that every model has.
    pub(super) recognize: Vec<String>,
    /// Patterns of tensors that do not take part in the forward pass.
    #[serde(default)]
    pub(super) unused: Vec<String>,
    /// The variables, in the order of their evaluation.
    #[serde(default)]
    pub(super) parameters: Vec<Parameter>,
    /// What must hold.
    #[serde(default)]
    pub(super) requires: Vec<Requirement>,
    /// The axes of the weights of each operator, in stored order.
    #[serde(default)]
    pub(super) axes: BTreeMap<String, Vec<Axis>>,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    /// Statements to use in several places.
    #[serde(default)]
    pub(super) blocks: BTreeMap<String, Vec<Statement>>,
    pub(super) nodes: Vec<Statement>,
}

pub(super) fn is_automatic() -> bool {
    true
}

pub(super) fn no_prefix() -> Vec<String> {
    vec![String::new()]
}

/// A variable: read off the tensors, or else set by the user, the configuration or the default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// Reads it off the tensors.
    #[serde(default)]
    pub(super) value: Option<Expression>,
    /// Keys of the configuration, of which the first counts that exists; dots lead into objects and lists.
    #[serde(default)]
    pub(super) config: Vec<String>,
    /// What it is where nothing else states it.
    #[serde(default)]
    pub(super) default: Option<Expression>,
    /// What it means, for the error where nothing states it.
    #[serde(default)]
    pub(super) meaning: String,
}

/// A condition, and what to say if it does not hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    pub(super) holds: Expression,
    pub(super) otherwise: Text,
}

/// An input of the graph.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) shape: Vec<Length>,
    #[serde(default)]
    pub(super) dtype: Option<DType>,
    /// The lengths of a random example, where `shape` leaves them free.
    #[serde(default)]
    pub(super) example: Vec<Length>,
    /// Whether the graph has it only if it is asked for: the variable of its name.
    #[serde(default)]
    pub(super) optional: bool,
    #[serde(default)]
    pub(super) when: Option<Expression>,
}

/// An output of the graph.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub(super) name: String,
    /// The value that it is.
    pub(super) value: Text,
    pub(super) shape: Vec<Length>,
    #[serde(default)]
    pub(super) when: Option<Expression>,
}

/// The length of an axis: a number, `=` and an expression, or a name for one that is free.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub(super) enum Length {
    Free,
    Fixed(u64),
    Computed(Expression),
}

impl TryFrom<serde_json::Value> for Length {
    type Error = String;

    fn try_from(json: serde_json::Value) -> Result<Self, String> {
        match (json.as_u64(), json.as_str()) {
            (Some(length), _) => Ok(Length::Fixed(length)),
            (_, Some(text)) => match text.strip_prefix('=') {
                Some(expression) => Expression::parse(expression).map(Length::Computed),
                None => Ok(Length::Free),
            },
            _ => Err("the length of an axis is a number, a name, or an expression after '='".to_owned()),
        }
    }
}

/// A statement of a template.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "StatementFields")]
pub(super) enum Statement {
    Node(Box<NodeTemplate>),
    /// The statements once for each number from 0 to before the count.
    Repeat {
        count: Expression,
        variable: String,
        nodes: Vec<Statement>,
        when: Option<Expression>,
    },
    /// The statements of a block, with variables of its own.
    Use {
        block: String,
        with: BTreeMap<String, Argument>,
        when: Option<Expression>,
    },
    /// Sets variables.
    Set {
        values: BTreeMap<String, Argument>,
        when: Option<Expression>,
    },
}

/// A node, once its texts are evaluated.
#[derive(Clone, Debug)]
pub(super) struct NodeTemplate {
    pub(super) name: Text,
    pub(super) op: Text,
    pub(super) inputs: Vec<Text>,
    /// Empty for one output of the node's name.
    pub(super) outputs: Vec<Text>,
    pub(super) parameters: BTreeMap<String, TensorName>,
    pub(super) attributes: BTreeMap<String, AttributeTemplate>,
    /// The axes of the weight, if they are not those of the operator.
    pub(super) axes: Option<Vec<Axis>>,
    pub(super) when: Option<Expression>,
}

/// The name of a tensor; `?` at its end for one that may be missing.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct TensorName {
    pub(super) name: Text,
    pub(super) is_optional: bool,
}

impl TryFrom<String> for TensorName {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        let (name, is_optional) = match source.strip_suffix('?') {
            Some(name) => (name, true),
            None => (source.as_str(), false),
        };
        Ok(TensorName { name: Text::parse(name)?, is_optional })
    }
}

/// A text, or `=` and an expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub(super) enum Argument {
    Value(Value),
    Text(Text),
    Expression(Expression),
}

impl TryFrom<serde_json::Value> for Argument {
    type Error = String;

    fn try_from(json: serde_json::Value) -> Result<Self, String> {
        match json {
            serde_json::Value::String(text) => match text.strip_prefix('=') {
                Some(expression) => Expression::parse(expression).map(Argument::Expression),
                None => Text::parse(&text).map(Argument::Text),
            },
            other => Value::from_json(&other).map(Argument::Value).ok_or_else(|| {
                "a value is a number, a truth value, a text, or an expression after '='".to_owned()
            }),
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum AttributeTemplate {
    One(Argument),
    /// Integers.
    List(Vec<Argument>),
}

/// Every field that a statement may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementFields {
    name: Option<Text>,
    op: Option<Text>,
    inputs: Option<Vec<Text>>,
    outputs: Option<Vec<Text>>,
    parameters: Option<BTreeMap<String, TensorName>>,
    attributes: Option<BTreeMap<String, AttributeTemplate>>,
    axes: Option<Vec<Axis>>,
    repeat: Option<Expression>,
    r#as: Option<String>,
    nodes: Option<Vec<Statement>>,
    r#use: Option<String>,
    with: Option<BTreeMap<String, Argument>>,
    set: Option<BTreeMap<String, Argument>>,
    when: Option<Expression>,
}

impl TryFrom<StatementFields> for Statement {
    type Error = String;

    fn try_from(mut fields: StatementFields) -> Result<Self, String> {
        let when = fields.when.take();
        let statement = if let Some(count) = fields.repeat.take() {
            let variable = fields.r#as.take().ok_or("missing field `as`: the variable that counts")?;
            let nodes = fields.nodes.take().ok_or("missing field `nodes`: what to repeat")?;
            Statement::Repeat { count, variable, nodes, when }
        } else if let Some(block) = fields.r#use.take() {
            Statement::Use { block, with: fields.with.take().unwrap_or_default(), when }
        } else if let Some(values) = fields.set.take() {
            Statement::Set { values, when }
        } else {
            let op = fields.op.take().ok_or("a statement has one of `op`, `repeat`, `use` and `set`")?;
            Statement::Node(Box::new(NodeTemplate {
                name: fields.name.take().ok_or("missing field `name`")?,
                op,
                inputs: fields.inputs.take().unwrap_or_default(),
                outputs: fields.outputs.take().unwrap_or_default(),
                parameters: fields.parameters.take().unwrap_or_default(),
                attributes: fields.attributes.take().unwrap_or_default(),
                axes: fields.axes.take(),
                when,
            }))
        };
        match fields.left() {
            None => Ok(statement),
            Some(field) => Err(format!("this kind of statement has no field `{field}`")),
        }
    }
}

impl StatementFields {
    /// Returns a field that the statement did not take.
    fn left(&self) -> Option<&'static str> {
        let fields = [
            ("name", self.name.is_some()),
            ("op", self.op.is_some()),
            ("inputs", self.inputs.is_some()),
            ("outputs", self.outputs.is_some()),
            ("parameters", self.parameters.is_some()),
            ("attributes", self.attributes.is_some()),
            ("axes", self.axes.is_some()),
            ("as", self.r#as.is_some()),
            ("nodes", self.nodes.is_some()),
            ("use", self.r#use.is_some()),
            ("with", self.with.is_some()),
            ("set", self.set.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }
}
