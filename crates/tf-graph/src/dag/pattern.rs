//! Looks at operations and their inputs, to recognize what several of them compute together.

use super::super::chain::Context;
use super::super::node::decimal;
use super::constant;
use super::facts::{Facts, dtype};
use super::reach::{Dag, Edge, What};
use super::weights::Constants;
use crate::proto::NodeDef;
use ckpt_graph::{Dims, Length};

/// Limit on the operations that one pattern follows in a row.
const MAX_STEPS: usize = 16;

/// A graph and what is known of its values.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub dag: &'a Dag<'a>,
    pub facts: &'a Facts,
    pub context: &'a Context<'a>,
    /// Constants that can be weights; none within a loop.
    pub constants: Option<&'a Constants>,
}

impl<'a> View<'a> {
    /// Returns the operation that makes a value.
    pub fn op(&self, edge: Edge) -> Option<&'a NodeDef> {
        match &self.dag.nodes.get(edge.node)?.what {
            What::Op(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the kind of the operation that makes a value; nothing for inputs and variables.
    pub fn kind(&self, edge: Edge) -> &'a str {
        self.op(edge).map_or("", |node| node.op.as_str())
    }

    pub fn inputs(&self, edge: Edge) -> &'a [Edge] {
        self.dag.nodes.get(edge.node).map_or(&[], |node| &node.inputs)
    }

    /// Returns both inputs of an operation of one of these kinds.
    pub fn pair(&self, edge: Edge, kinds: &[&str]) -> Option<(Edge, Edge)> {
        match self.inputs(edge) {
            [a, b, ..] if kinds.contains(&self.kind(edge)) => Some((*a, *b)),
            _ => None,
        }
    }

    /// Returns the first input of an operation of one of these kinds.
    pub fn only(&self, edge: Edge, kinds: &[&str]) -> Option<Edge> {
        self.inputs(edge).first().copied().filter(|_| kinds.contains(&self.kind(edge)))
    }

    pub fn dims(&self, edge: Edge) -> Option<&'a Dims> {
        self.facts.dims(edge)
    }

    pub fn ints(&self, edge: Edge) -> Option<Vec<i64>> {
        self.facts.get(edge).ints.as_ref()?.known()
    }

    /// Returns the number of a constant with one element.
    pub fn number(&self, edge: Edge) -> Option<f64> {
        let found = constant::reals(self.op(self.passed(edge))?, 1)?;
        match found.values[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Returns the number that arithmetic on a few constants gives.
    pub fn arithmetic(&self, edge: Edge) -> Option<f64> {
        self.computed(edge, 4)
    }

    fn computed(&self, edge: Edge, depth: u32) -> Option<f64> {
        if let Some(value) = self.number(edge) {
            return Some(value);
        }
        let depth = depth.checked_sub(1)?;
        let (a, b) = self.pair(edge, &["AddV2", "Add", "Sub", "Mul", "RealDiv"])?;
        let (a, b) = (self.computed(a, depth)?, self.computed(b, depth)?);
        Some(match self.kind(edge) {
            "Sub" => a - b,
            "Mul" => a * b,
            "RealDiv" => a / b,
            _ => a + b,
        })
    }

    /// Recognizes dropout that drops nothing, as TensorFlow 1 has it at inference: what it selects where random numbers
    /// of at least 0 are at least 0.
    pub fn kept(&self, edge: Edge) -> Option<Edge> {
        let (condition, value) = self.pair(edge, &["SelectV2"])?;
        let (random, rate) = self.pair(condition, &["GreaterEqual"])?;
        let mut random = random;
        for _ in 0..2 {
            // minimum + random · (maximum − minimum)
            random = match self.pair(random, &["AddV2", "Add", "Mul"]) {
                Some((a, b)) if self.arithmetic(b).is_some_and(|value| value >= 0.0) => a,
                _ => random,
            };
        }
        let is_random = self.kind(random) == "RandomUniform";
        (is_random && self.arithmetic(rate) == Some(0.0)).then_some(value)
    }

    /// Follows casts between types of floating-point numbers.
    pub fn passed(&self, mut edge: Edge) -> Edge {
        for _ in 0..MAX_STEPS {
            match self.only(edge, &["Cast"]) {
                Some(inner) if self.op(edge).is_some_and(is_float_cast) => edge = inner,
                _ => break,
            }
        }
        edge
    }

    /// Returns the key of the variable or constant that a value is, possibly cast.
    pub fn variable(&self, edge: Edge) -> Option<&'a str> {
        let edge = self.passed(edge);
        match &self.dag.nodes.get(edge.node)?.what {
            What::Variable(key) => Some(key),
            What::Op(_) if edge.output == 0 => self.constants?.key(edge.node),
            _ => None,
        }
    }

    /// Returns the key of a variable of one axis that a value is, possibly with axes of length 1 before it.
    pub fn vector(&self, mut edge: Edge) -> Option<&'a str> {
        for _ in 0..MAX_STEPS {
            edge = self.passed(edge);
            let key = self.variable(edge);
            if key.is_some() && self.dims(edge)?.len() == 1 {
                return key;
            }
            let inner = self.only(edge, &["Reshape", "Squeeze", "ExpandDims"])?;
            let dims = self.dims(edge)?;
            let (_, before) = dims.split_last()?;
            if before.iter().any(|len| len.known() != Some(1)) {
                return None;
            }
            edge = inner;
        }
        None
    }

    /// Returns the last length of a value.
    pub fn features(&self, edge: Edge) -> Option<Length> {
        self.dims(edge)?.last().copied()
    }

    /// Collects the factors of a product, through signs and quotients by constants.
    pub fn product(&self, edge: Edge) -> Option<Product> {
        let mut product = Product { constant: 1.0, factors: Vec::new() };
        let mut open = vec![edge];
        let mut read = 0;
        while let Some(edge) = open.pop() {
            read += 1;
            if read > MAX_STEPS {
                return None;
            }
            if let Some(value) = self.number(edge) {
                product.constant *= value;
            } else if let Some((a, b)) = self.pair(edge, &["Mul"]) {
                open.extend([a, b]);
            } else if let Some(inner) = self.only(edge, &["Neg"]) {
                product.constant = -product.constant;
                open.push(inner);
            } else if let Some((a, divisor)) =
                self.pair(edge, &["RealDiv"]).and_then(|(a, b)| Some((a, self.number(b)?)))
            {
                product.constant /= divisor;
                open.push(a);
            } else {
                product.factors.push(edge);
            }
        }
        Some(product)
    }
}

/// A constant times other factors.
pub(super) struct Product {
    pub constant: f64,
    pub factors: Vec<Edge>,
}

/// Whether the operation casts between types of floating-point numbers.
pub(super) fn is_float_cast(op: &NodeDef) -> bool {
    let is_float = |name: &str| matches!(dtype(op, name), Some(1 | 2 | 14 | 19));
    is_float("SrcT") && is_float("DstT")
}

/// Whether two numbers are equal in the precision of a float32 constant.
pub(super) fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected.abs() * 1e-6
}

/// Returns a float attribute; `default` if it is left out.
pub(super) fn float(op: &NodeDef, name: &str, default: f64) -> f64 {
    match super::super::node::attribute(op, name) {
        Some(crate::proto::attr_value::Value::F(value)) => decimal(*value),
        _ => default,
    }
}
