//! Bounds on what an input may make the process do.

use crate::{Error, Result, Setting, nearest, parse_size, text};

macro_rules! limits {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $default:expr;)*) => {
        /// A bound on what an input may make the process do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Limit { $($(#[$doc])* $variant,)* }

        impl Limit {
            /// Every limit, in declaration order.
            pub const ALL: &'static [Limit] = &[$(Limit::$variant,)*];

            /// The name that users give it, in snake case.
            pub const fn name(self) -> &'static str {
                match self { $(Limit::$variant => $name,)* }
            }

            /// The value that applies unless the user sets another.
            pub const fn default_value(self) -> u64 {
                match self { $(Limit::$variant => $default,)* }
            }
        }
    };
}

limits! {
    /// Bytes of one header that is parsed as a whole (JSON, object graph, SavedModel).
    HeaderBytes = "header_bytes", 256 << 20;
    /// Bytes of a header that a member of an archive decompresses to, beyond 4 MiB, for each byte of the archive.
    HeaderRatio = "header_ratio", 32;
    /// Bytes of one table block after decompression.
    BlockBytes = "block_bytes", 64 << 20;
    /// Bytes of one compressed chunk that is decompressed as a whole, because its bytes are shuffled.
    ChunkBytes = "chunk_bytes", 64 << 20;
    /// Tensors in a checkpoint.
    Tensors = "tensors", 2_000_000;
    /// Axes of one tensor.
    Rank = "rank", 254;
    /// Bytes of one name.
    NameBytes = "name_bytes", 1 << 20;
    /// Stored slices of one tensor.
    Slices = "slices", 16_384;
    /// Elements of one string or variant tensor.
    StringElements = "string_elements", 16 << 20;
    /// Nodes of a graph or object graph.
    GraphNodes = "graph_nodes", 2_000_000;
    /// Files of one checkpoint, of the directory that it is in, or of one side of a receipt.
    Files = "files", 65_536;
    /// Bytes of one architecture, mapping or position file.
    TextBytes = "text_bytes", 16 << 20;
    /// Tokens of one mapping or architecture file: keys, strings, numbers, punctuation; in TOML also spaces, ends of
    /// lines.
    TextTokens = "text_tokens", 1 << 20;
    /// Rules of a mapping, patterns of its `ignore`, and roles.
    Rules = "rules", 1024;
    /// Names in the `from` or the `to` of one rule of a mapping.
    RuleNames = "rule_names", 64;
    /// Steps of one rule or role of a mapping.
    RuleSteps = "rule_steps", 16;
    /// Captures and wildcards of one pattern of a mapping.
    Captures = "captures", 32;
    /// Bytes of one pattern of a mapping that has captures or wildcards.
    PatternBytes = "pattern_bytes", 4096;
    /// Values in the metadata of a checkpoint and its tensors, elements of lists included.
    MetadataEntries = "metadata_entries", 16 << 20;
    /// Bytes of all keys, texts and byte strings in that metadata.
    MetadataBytes = "metadata_bytes", 1 << 30;
    /// Multiply-adds of one run of a graph; an element that is moved or computed by itself counts as one.
    Operations = "operations", 10_000_000_000_000;
    /// Bytes of a plugin's module.
    PluginBytes = "plugin_bytes", 32 << 20;
    /// Steps of one call of a plugin: about one for each instruction, and one for 16 bytes that are read.
    PluginSteps = "plugin_steps", 20_000_000_000;
    /// Bytes of memory of a plugin, for each thread that it runs in.
    PluginMemory = "plugin_memory", 1 << 30;
}

/// The value of every [`Limit`]. They are checked before memory is allocated or time is spent; exceeding one is a
/// [`crate::Kind::Limit`] error that names it.
///
/// ```
/// use ckpt_api::{Limit, Limits};
/// let limits = Limits::default().with(Limit::Tensors, 10);
/// assert!(limits.check(Limit::Tensors, 10).is_ok());
/// assert!(limits.check(Limit::Tensors, 11).unwrap_err().to_string().contains("tensors"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits([u64; Limit::ALL.len()]);

impl Default for Limits {
    fn default() -> Self {
        let mut values = [0; Limit::ALL.len()];
        for (value, limit) in values.iter_mut().zip(Limit::ALL) {
            *value = limit.default_value();
        }
        Limits(values)
    }
}

impl Limits {
    /// The value of a limit.
    pub fn get(&self, limit: Limit) -> u64 {
        // The array has one value for each variant.
        self.0[limit as usize]
    }

    /// Sets one limit.
    pub fn set(&mut self, limit: Limit, value: u64) {
        self.0[limit as usize] = value;
    }

    /// The same limits with one of them set.
    #[must_use]
    pub fn with(mut self, limit: Limit, value: u64) -> Self {
        self.set(limit, value);
        self
    }

    /// Sets one limit by its name; the value may end with `k`, `m` or `g`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an unknown name, listing the known ones, or a value that is no number.
    pub fn set_by_name(&mut self, name: &str, value: &str) -> Result<()> {
        let number = parse_size(value).ok_or_else(|| {
            Error::usage("the limit is not a number").field(name).found(format!("'{value}'"))
        })?;
        let limit = Limit::from_name(name).ok_or_else(|| {
            let names = Limit::ALL.iter().map(|limit| limit.name());
            Error::usage("unknown limit").field(name).help(nearest(name, names))
        })?;
        self.set(limit, number);
        Ok(())
    }

    /// Checks `found` against a limit, before anything is allocated for it.
    ///
    /// # Errors
    /// [`crate::Kind::Limit`], naming the limit and the value that would do.
    #[inline]
    pub fn check(&self, limit: Limit, found: u64) -> Result<()> {
        if found <= self.get(limit) { Ok(()) } else { Err(exceeded(limit, self.get(limit), found)) }
    }
}

impl Limit {
    /// The limit with this [`name`](Limit::name).
    pub fn from_name(name: &str) -> Option<Limit> {
        Limit::ALL.iter().copied().find(|limit| limit.name() == name)
    }
}

#[cold]
fn exceeded(limit: Limit, value: u64, found: u64) -> Error {
    // What is counted one by one is found as one too many, and may be far more.
    let is_counted = found == value.saturating_add(1);
    let usual = if is_counted { Limits::default().get(limit) } else { 0 };
    let raised = found.max(value.saturating_mul(2)).max(usual);
    let (name, raised) = (limit.name(), format!("{}={raised}", limit.name()));
    Error::limit(format!("the input exceeds the limit '{name}'"))
        .found(found.to_string())
        .expected(format!("at most {value}"))
        .help(text!["if you trust the input, allow this with ", Setting::LIMIT.of(&raised)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_limit_lists_the_known_ones() {
        let error = Limits::default().set_by_name("tensor", "5").unwrap_err();
        assert!(error.to_string().contains("tensors"), "{error}");
    }

    #[test]
    fn every_limit_can_be_set_by_its_name_and_is_checked() {
        for limit in Limit::ALL {
            let mut limits = Limits::default();
            assert_eq!(limits.get(*limit), limit.default_value());
            limits.set_by_name(limit.name(), "7").unwrap();
            assert!(limits.check(*limit, 7).is_ok(), "{limit:?}");
            let error = limits.check(*limit, 8).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Limit);
            assert!(error.to_string().contains(limit.name()), "{error}");
        }
    }

    #[test]
    fn a_value_may_have_a_unit() {
        let mut limits = Limits::default();
        limits.set_by_name("header_bytes", "1k").unwrap();
        assert_eq!(limits.get(Limit::HeaderBytes), 1024);
        assert!(limits.set_by_name("header_bytes", "much").is_err());
    }
}
