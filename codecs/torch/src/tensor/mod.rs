//! The tensors and arrays that a pickle describes, and where their bytes are.

pub(crate) mod call;
pub(crate) mod describe;
pub(crate) mod dtensor;
pub(crate) mod layout;
pub(crate) mod rebuild;
pub(crate) mod stored;
pub(crate) mod view;
