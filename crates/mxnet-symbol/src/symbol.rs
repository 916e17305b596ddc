//! The nodes of a symbol's file.

use crate::stated::Read;
use ckpt_api::{Limit, Limits};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A symbol: nodes in an order in which they can run, and the results.
pub(crate) struct Symbol {
    pub(crate) steps: Vec<Step>,
    /// Number of the node, and of its result.
    pub(crate) heads: Vec<(usize, usize)>,
}

/// A node: a variable, or an operator.
pub(crate) struct Step {
    pub(crate) op: String,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Number of the node, and of its result.
    pub(crate) inputs: Vec<(usize, usize)>,
}

impl Symbol {
    /// Parses the file.
    pub(crate) fn parse(json: &[u8], limits: &Limits) -> Read<Self> {
        let value: Value =
            serde_json::from_slice(json).map_err(|error| format!("it is not JSON: {error}"))?;
        let nodes = value.get("nodes").and_then(Value::as_array).ok_or("it has no list of nodes")?;
        limits.check(Limit::GraphNodes, nodes.len() as u64).map_err(|error| error.to_string())?;
        let step = |(number, node): (usize, &Value)| {
            Step::parse(node, number).map_err(|why| format!("node {number} {why}"))
        };
        let steps = nodes.iter().enumerate().map(step).collect::<Read<Vec<Step>>>()?;
        let heads = value.get("heads").and_then(Value::as_array).ok_or("it has no results")?;
        let head = |head: &Value| reference(head, steps.len()).ok_or("a result is of no node".to_owned());
        let heads = heads.iter().map(head).collect::<Read<Vec<_>>>()?;
        Ok(Symbol { steps, heads })
    }
}

impl Step {
    fn parse(node: &Value, number: usize) -> Read<Self> {
        let text = |key: &str| node.get(key).and_then(Value::as_str).map(str::to_owned);
        let op = text("op").ok_or("has no operator")?;
        let name = text("name").ok_or("has no name")?;
        let inputs = node.get("inputs").and_then(Value::as_array).ok_or("has no inputs")?;
        let inputs = inputs.iter().map(|input| reference(input, number)).collect::<Option<Vec<_>>>();
        let inputs = inputs.ok_or("takes a value that no node before it makes")?;
        let mut attributes = BTreeMap::new();
        // The names that versions before 1.0 gave them: those of operators were apart then.
        for map in ["attr", "param", "attrs"].iter().filter_map(|key| node.get(key)?.as_object()) {
            attributes.extend(texts(map));
        }
        Ok(Step { op, name, attributes, inputs })
    }

    /// Whether it is a value from outside: an input or a parameter.
    pub(crate) fn is_variable(&self) -> bool {
        self.op == "null"
    }

    /// Whether MXNet numbers its results.
    pub(crate) fn several(&self) -> bool {
        matches!(self.op.as_str(), "SliceChannel" | "split" | "_split_v2")
    }
}

fn texts(map: &Map<String, Value>) -> impl Iterator<Item = (String, String)> {
    map.iter()
        .map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

/// A node before `end`, and the number of its result.
fn reference(value: &Value, end: usize) -> Option<(usize, usize)> {
    let [node, result, ..] = &value.as_array()?[..] else { return None };
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    Some((number(node).filter(|node| *node < end)?, number(result)?))
}
