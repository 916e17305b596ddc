//! How far two arrays are apart, and whether a rule allows it.

mod argmax;
mod arrays;
mod criterion;
mod metrics;
mod rule;

pub(crate) use argmax::argmax;
pub use argmax::largest;
pub(crate) use arrays::compare;
pub(crate) use criterion::{Criterion, ErrorBound, Norms, RELATIVE_L2};
pub(crate) use metrics::index;
pub use metrics::{MetricsBuilder, Precision};
pub(crate) use rule::StorageChanges;
