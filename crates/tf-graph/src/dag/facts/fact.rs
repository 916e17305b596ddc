//! What is known of one value.

use ckpt_graph::{Dims, Integers};
use std::rc::Rc;

/// A value's shape and integers.
#[derive(Clone, Debug, Default)]
pub(in crate::dag) struct Fact {
    /// `None` if not even the number of axes is known.
    pub dims: Option<Dims>,
    /// The integers or truth values, if they are known up to free lengths.
    pub ints: Option<Rc<Integers>>,
}
