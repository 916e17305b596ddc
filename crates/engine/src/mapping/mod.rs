//! Mappings: the name, the sources and the recipe of every target tensor, decided before any tensor is read.
//!
//! A mapping is a TOML file (JSON Schema: `schemas/mapping.schema.json`), a built-in mapping, or made in code.
//!
//! ```toml
//! title = "These names to those"   # one line, for people
//! separator = "/"            # separates the segments of source names; default "/"
//! target_separator = "."     # separates the segments of target names; default: the same
//! identity = true            # keep every name that no entry matches; default false: such a name is an error
//! ordered = false            # true: the first rule that matches wins; default: two that match are an error
//! ignore = ["save_counter/**", "optimizer/**"]   # patterns of source names to drop
//! ignore_roles = ["optimizer", "counter", "bookkeeping", "duplicate"]   # roles of tensors to drop
//!
//! [roles]                    # steps by the role of a tensor
//! kernel = ["transpose"]
//!
//! [parameters.heads]         # a length that differs from model to model: reshape _ -> {heads} 2 _
//! config = ["num_attention_heads"]           # keys of the config.json beside the checkpoint
//! metadata = ["*.attention.head_count"]      # patterns of keys of the checkpoint's metadata
//!
//! [lookup]                   # exact names
//! "a/b" = "c.d"
//!
//! [[rule]]
//! from = "model/h{layer:int}/attn/{part}"
//! to = "h.{layer}.{part}"
//! role = "kernel"            # or steps of the rule's own: steps = ["transpose"]
//! ```
//!
//! **Precedence.** The first of these decides about a name: `lookup`, `ignore` and `ignore_roles`, the rules,
//! `identity`. Every source in the lookup must exist. A rule or an `ignore` pattern that matches nothing is only
//! reported ([`Applied::unused`]), so a rule without captures is a lookup that may be absent. A rule that an earlier
//! entry hides, whatever the names, is an error.
//!
//! **Patterns.** `ignore` and `from` are [patterns](crate::pattern). `ignore` has wildcards and captures; `from` has
//! captures alone, each name once.
//!
//! **Targets.** `to` uses the captures of `from`: `{n}` writes a number plainly, `{n:int3}` pads it with zeros to three
//! digits, `{n+1}` and `{n-1}` shift it, `{n-1:int3}` does both. A number that does not fit its padding, or falls below
//! 0, is an error. The separators in a path become the `target_separator`.
//!
//! **Steps** ([`crate::recipe::AxisStep`]): `transpose`, `permute 3 2 0 1`, `squeeze 0`, `unsqueeze 0`,
//! `reshape _ -> 32 2 _ on 1`, `parts 1 0 2 on 0`, `cast f32 -> bf16`, `scale 0.5`, `scale 1/3`, `add 1`, `exp`, `log`, and for the input axis of a dense layer behind a Flatten `flatten_order 4 4 8` and its inverse, `unflatten_order 4 4 8`.
//!
//! **Several tensors.** A rule that takes or makes several tensors has a list of names with the same captures:
//!
//! | in the rule | `from` | `to` | |
//! |---|---|---|---|
//! | `split = 1` | one | a list | cuts the source along this axis, into equal parts or `sizes = [768, 64, 64]`, also by parameters, `sizes = ["{heads} * 64", 64, 64]`; then takes the steps on each part |
//! | `merge = 0` | a list | one | takes the steps on each source; then concatenates along this axis |
//! | `stack = "n"` | one | one | takes the steps on each source; then puts those of the numbers `{n:int}` from 0 on side by side along a new axis 0, or `stack_axis = 1` |
//! | `unstack = "n"` | one | one | makes a tensor `{n}` of each index on axis 0, or `stack_axis = 1`; then takes the steps on each |
//! | `stack = "n"`, `merge = 0` | a list | one | concatenates the sources of each number along axis 0 before it stacks them |
//! | `unstack = "n"`, `split = 0` | one | a list | splits each element along axis 0 before it takes the steps |
//! | `dequantize = "scaled"` | elements, scales | one | multiplies each block of elements by its scale, with `block = [128, 128]`; `dtype = "bf16"` is the dtype of the result; then takes the steps |
//! | `dequantize = "mxfp4"` | elements, scales | one | the same for bytes of MXFP4 |
//! | `tie = true` | one | a list | gives the same tensor each name |
//! | `tie = true` | a list | one | takes the first of tensors that must be equal |
//! | `sum = true` | one | a list | gives the first name the tensor, and the others zeros, which are added to it |
//! | `sum = true` | a list | one | takes the steps on each source; then adds them, which are 32-bit floats |
//!
//! A rule with a list in `from` matches a name that matches any pattern of the list. For the same captures, all sources
//! must be there, or none.
//!
//! **Inverse** ([`Mapping::inverse`]). A rule whose captures all appear once in each name of `to` can be read
//! backwards: separators change places, padding and shifts are undone, steps are undone from last to first, a split
//! becomes a merge, a merge a split, a stack is unstacked, and a tie is read from its other side. [`Mapping::apply`] then proves on the
//! actual names that the inverse returns the sources. A rule with `inverse = false` has no inverse. Names that `ignore`
//! drops do not come back.

mod apply;
mod dead;
mod decide;
mod definition;
mod explain;
mod factors;
mod file;
mod generated;
mod inverse;
mod lookup;
mod needs;
mod parameters;
mod print;
mod problems;
mod relation;
mod rule;
mod rule_text;
mod sizes;
#[cfg(test)]
mod tests;

pub use apply::Applied;
pub use definition::{Frameworks, Ignore};
pub(crate) use definition::{Generated, Parameter};
pub use definition::{Mapping, MappingGenerator, Translation};
pub use explain::Decisions;
pub use explain::{Back, Decision, Explanation, Nearest, RuleReport};
pub use factors::Factors;
pub use file::check_tokens;
pub use generated::listed;
pub(crate) use parameters::KEY_SEPARATOR;
pub use relation::{Assembly, Relation};
pub use rule::{Rule, check_count, default_limit};
