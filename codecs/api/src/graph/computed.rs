//! Attributes that a graph computes.

use crate::{Attribute, Graph, Node, Op};

impl Op {
    /// Returns the attributes that a node may take as inputs, in place of attributes, and the place of the first of these
    /// inputs. The others follow in this order; an empty name stands for one that is left out.
    ///
    /// The graph computes such an input from the lengths of values: it is known as soon as the shapes of the graph's
    /// inputs are. Places and kinds are ONNX's: a shape is a list of integers, `k` is an integer or a list of one.
    ///
    /// ```
    /// use ckpt_api::Op;
    /// assert_eq!(Op::Reshape.computed_attributes(), (1, &["shape"][..]));
    /// assert_eq!(Op::Relu.computed_attributes(), (0, &[][..]));
    /// ```
    pub const fn computed_attributes(&self) -> (usize, &'static [&'static str]) {
        match self {
            Op::Reshape | Op::Expand => (1, &["shape"]),
            Op::Slice => (1, &["starts", "ends", "axes", "steps"]),
            Op::Tile => (1, &["repeats"]),
            Op::Pad => (1, &["pads"]),
            Op::Split => (1, &["split"]),
            Op::TopK => (1, &["k"]),
            Op::Resize => (2, &["scales", "sizes"]),
            Op::Range => (0, &["start", "limit", "delta"]),
            _ => (0, &[]),
        }
    }
}

impl Node {
    /// Returns the inputs of the node that are attributes, with the attributes' names.
    ///
    /// ```
    /// use ckpt_api::{Node, Op};
    /// let mut node = Node::new("flat", Op::Reshape);
    /// node.inputs = vec!["x".to_owned(), "shape".to_owned()];
    /// assert_eq!(node.computed_attributes().collect::<Vec<_>>(), [("shape", "shape")]);
    /// ```
    pub fn computed_attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (first, names) = self.op.computed_attributes();
        let given = self.inputs.iter().skip(first).map(String::as_str);
        names.iter().copied().zip(given).filter(|(_, input)| !input.is_empty())
    }
}

impl Graph {
    /// Whether the graph computes attributes of its nodes, so that what they make has a shape that follows from more than
    /// the shapes of their inputs.
    pub fn computes_attributes(&self) -> bool {
        self.all_nodes().any(|node| node.computed_attributes().next().is_some())
    }
}

impl Attribute {
    /// Returns integers as attribute `name` of [`Op::computed_attributes`]: one number or a list. `None` for several
    /// numbers if it is one.
    ///
    /// ```
    /// use ckpt_api::Attribute;
    /// assert_eq!(Attribute::of_integers("k", vec![3]), Some(Attribute::Int(3)));
    /// assert_eq!(Attribute::of_integers("shape", vec![3]), Some(Attribute::Ints(vec![3])));
    /// assert_eq!(Attribute::of_integers("k", vec![3, 4]), None);
    /// ```
    pub fn of_integers(name: &str, values: Vec<i64>) -> Option<Self> {
        match (is_number(name), &values[..]) {
            (false, _) => Some(Attribute::Ints(values)),
            (true, [value]) => Some(Attribute::Int(*value)),
            (true, _) => None,
        }
    }

    /// Returns real numbers as such an attribute, as [`Attribute::of_integers`] does.
    ///
    /// ```
    /// use ckpt_api::Attribute;
    /// assert_eq!(Attribute::of_reals("delta", vec![0.5]), Some(Attribute::Float(0.5)));
    /// assert_eq!(Attribute::of_reals("scales", vec![2.0]), Some(Attribute::Floats(vec![2.0])));
    /// ```
    pub fn of_reals(name: &str, values: Vec<f64>) -> Option<Self> {
        match (is_number(name), &values[..]) {
            (false, _) => Some(Attribute::Floats(values)),
            (true, [value]) => Some(Attribute::Float(*value)),
            (true, _) => None,
        }
    }
}

/// Whether a computed attribute is one number.
fn is_number(name: &str) -> bool {
    matches!(name, "k" | "start" | "limit" | "delta")
}
