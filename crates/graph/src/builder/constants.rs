//! Constants.

use super::{Builder, Reason, Tag, Val, ints};
use crate::shape::{Dims, of_sizes};
use ckpt_api::{Attribute, Node, Op};

impl<K: Tag> Builder<K> {
    /// Adds a scalar.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn scalar(&mut self, value: f64) -> Result<Val<K>, Reason> {
        let node = Node::new(self.constant_name(), Op::Constant);
        self.plain(node.attribute("value_float", Attribute::Float(value)), &[], Dims::new())
    }

    /// Adds a value of real numbers.
    ///
    /// # Errors
    /// As [`Builder::plain`].
    pub fn floats(&mut self, name: &str, shape: &[u64], values: Vec<f64>) -> Result<Val<K>, Reason> {
        let node = Node::new(name, Op::Constant);
        let node = match (shape, &values[..]) {
            ([], [value]) => node.attribute("value_float", Attribute::Float(*value)),
            _ => node.attribute("value_floats", Attribute::Floats(values)).attribute("shape", ints(shape)?),
        };
        self.plain(node, &[], of_sizes(shape))
    }

    /// Adds a value of integers.
    ///
    /// # Errors
    /// As [`Builder::plain`].
    pub fn integers(&mut self, name: &str, shape: &[u64], values: Vec<i64>) -> Result<Val<K>, Reason> {
        let node = Node::new(name, Op::Constant);
        let node = match (shape, &values[..]) {
            ([], [value]) => node.attribute("value_int", Attribute::Int(*value)),
            _ => node.attribute("value_ints", Attribute::Ints(values)).attribute("shape", ints(shape)?),
        };
        self.plain(node, &[], of_sizes(shape))
    }

    /// Adds the value of a tensor of the checkpoint, in its stored order.
    ///
    /// # Errors
    /// As [`Builder::plain`].
    pub fn tensor(&mut self, name: &str, tensor: &str, dims: Dims) -> Result<Val<K>, Reason> {
        self.plain(Node::new(name, Op::Constant).parameter("value", tensor), &[], dims)
    }

    /// Adds the value of a tensor of the checkpoint under the tensor's name.
    ///
    /// # Errors
    /// As [`Builder::plain`].
    pub fn stored(&mut self, tensor: &str, dims: Dims) -> Result<Val<K>, Reason> {
        self.tensor(tensor, tensor, dims)
    }

    /// Returns the name of a constant at the current place.
    pub fn constant_name(&self) -> String {
        format!("{}/constant", self.place)
    }
}
