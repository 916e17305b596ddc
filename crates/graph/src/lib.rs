//! What importers and exporters of graphs share.
//!
//! A [`Graph`](ckpt_api::Graph) of the contract has ONNX's operators, which take images with their channels first.
//! Programs store graphs with other operators, and most of them have channels last. [`Builder`] adds nodes to a graph
//! and keeps both apart: what it takes and returns is in the source's order.
//!
//! | module | contents |
//! |---|---|
//! | [`length`] | a length of an axis: a number, or an expression of a free axis |
//! | [`shape`] | shapes that follow from other shapes |
//! | [`integers`] | arrays of integers that are known before the graph runs |
//! | [`order`] | images with their channels last, or first |
//! | [`selection`] | what a strided slice selects |
//! | [`infer`] | the shapes of what nodes make |
//! | [`names`] | names that occur once |
//! | [`axes`] | the axes of the tensors of layers |
//! | [`window`] | windows that move over images |
//! | [`nodes`] | nodes of graphs that have images with their channels first already |
//! | [`builder`] | nodes, and their values in either order |
//! | [`cells`] | cells of recurrent layers |
//! | [`results`] | what a graph returns, and the nodes that it needs |

pub mod axes;
pub mod builder;
pub mod cells;
pub mod infer;
pub mod integers;
pub mod length;
pub mod names;
pub mod nodes;
pub mod order;
pub mod results;
pub mod selection;
pub mod shape;
pub mod window;

pub use builder::{Builder, Range, Reason, Tag, Val, int, ints};
pub use cells::CellActivation;
pub use integers::Integers;
pub use length::Length;
pub use names::Names;
pub use nodes::Nodes;
pub use order::Layout;
pub use results::GraphResult;
pub use shape::Dims;
pub use window::{Padding, Side, Window};
