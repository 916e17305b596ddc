//! Inputs that are attributes.

use super::Specializer;
use super::numbers::integers;
use crate::Array;
use crate::lower::show;
use crate::value::Value;
use ckpt_api::{Attribute, Error, Node, Op, Result};

impl Specializer<'_> {
    /// Returns the node with attributes in place of the inputs that are known; a range of real numbers is several nodes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for an input that is not known.
    pub(super) fn with_attributes(&mut self, mut node: Node) -> Result<Vec<Node>> {
        let mut attributes = Vec::new();
        for (name, input) in node.computed_attributes() {
            let value = self.known(input).ok_or_else(|| self.unknown(name, input, &node))?;
            attributes.push((name, attribute(name, value).map_err(|error| error.field(&node.name))?));
        }
        if attributes.is_empty() {
            return Ok(vec![node]);
        }
        node.inputs.truncate(node.op.computed_attributes().0);
        while node.inputs.last().is_some_and(String::is_empty) {
            node.inputs.pop();
        }
        node.attributes.extend(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let is_real = node.attributes.values().any(|value| matches!(value, Attribute::Float(_)));
        if node.op == Op::Range && is_real { self.real_range(&node) } else { Ok(vec![node]) }
    }

    fn unknown(&self, name: &str, input: &str, node: &Node) -> Error {
        let shape = self
            .facts
            .get(input)
            .map_or(String::new(), |fact| format!(" of shape {}", show(&fact.info.shape)));
        Error::unsupported("the shape of a value depends on numbers that the graph computes")
            .field(&node.name)
            .found(format!("'{name}' of {} is the value '{input}'{shape}", node.op))
            .expected("an attribute that follows from the shapes of the graph's inputs")
    }

    /// Real numbers in steps: integers from 0 on, times the step, plus the first one.
    fn real_range(&mut self, node: &Node) -> Result<Vec<Node>> {
        let (start, limit, delta) =
            (node.float("start", 0.0)?, node.float("limit", 0.0)?, node.float("delta", 1.0)?);
        let count = ((limit - start) / delta).ceil();
        // A step of 0 makes no number of it.
        if count.is_nan() || count >= f64::from(i32::MAX) {
            return Err(Error::limit("a range has too many elements")
                .field(&node.name)
                .found(count.to_string()));
        }
        let mut own = |suffix: &str| self.taken.unused(&format!("{}/{suffix}", node.name));
        let names = ["count", "real", "step", "scaled", "first"].map(&mut own);
        let [count_name, real, step, scaled, first] = &names;
        let made = |op: Op, inputs: &[&String], output: &String| {
            let mut made = Node::new(output.clone(), op);
            made.inputs = inputs.iter().map(|input| (*input).clone()).collect();
            made.outputs = vec![output.clone()];
            made
        };
        let number =
            |output, value| made(Op::Constant, &[], output).attribute("value_float", Attribute::Float(value));
        let mut last = made(Op::Add, &[scaled, first], scaled);
        (last.name, last.outputs) = (node.name.clone(), node.outputs.clone());
        Ok(vec![
            made(Op::Range, &[], count_name)
                .attribute("start", Attribute::Int(0))
                .attribute("limit", Attribute::Int(count.max(0.0) as i64))
                .attribute("delta", Attribute::Int(1)),
            made(Op::Cast, &[count_name], real).attribute("to", Attribute::Text("float".to_owned())),
            number(step, delta),
            made(Op::Mul, &[real, step], scaled),
            number(first, start),
            last,
        ])
    }
}

/// Returns a value as attribute `name`.
fn attribute(name: &str, value: &Value) -> Result<Attribute> {
    let found = match &value.array {
        Array::I32(_) => Attribute::of_integers(name, integers(value)),
        reals => Attribute::of_reals(name, reals.to_f64()),
    };
    found.ok_or_else(|| {
        Error::corrupt(format!("attribute '{name}' is not valid"))
            .found(format!("{} elements", value.array.len()))
            .expected("one number")
    })
}
