//! Which tensors are the state of an optimizer, and of which weights.

pub(crate) mod named;
pub(crate) mod pickled;

/// The name that all formats have for what PyTorch calls `name`.
pub(crate) fn slot_name(name: &str) -> &str {
    match name {
        "exp_avg" => "m",
        "exp_avg_sq" => "v",
        "max_exp_avg_sq" => "vhat",
        "momentum_buffer" => "momentum",
        other => other,
    }
}
