//! The options of the codec.

use ckpt_api::{OptionKind, OptionSpec, Side};

/// The option that lists every constant.
pub(super) const CONSTANTS: &str = "constants";

/// The option that names the ends of a graph that states none.
pub(crate) const OUTPUTS: &str = "outputs";

/// All of them.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        CONSTANTS,
        OptionKind::Flag,
        Side::Read,
        "list all constants of a frozen graph as tensors, also scalars and 32-bit integers, which are lengths and axes (default false)",
    ),
    OptionSpec::new(
        OUTPUTS,
        OptionKind::List,
        Side::Read,
        "operations of a frozen graph whose results the model returns (default: those that no operation takes)",
    ),
];
