//! Bounds on what an input may make the process do.

use crate::{Error, Result, nearest, parse_size};

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident = $default:expr;)*) => {
        /// Bounds checked before memory is allocated or time is spent. Exceeding one is a
        /// [`crate::Kind::Limit`] error that names it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits { $($(#[$doc])* pub $field: u64,)* }

        impl Default for Limits {
            fn default() -> Self { Limits { $($field: $default,)* } }
        }

        impl Limits {
            /// The names that [`Limits::set`] takes, with their present values.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }

            #[inline(always)]
            fn value(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($field) => Some(self.$field),)* _ => None }
            }

            fn slot(&mut self, name: &str) -> Option<&mut u64> {
                match name { $(stringify!($field) => Some(&mut self.$field),)* _ => None }
            }
        }
    };
}

limits! {
    /// Bytes of one header that is parsed as a whole (JSON, object graph, SavedModel).
    header_bytes = 256 << 20;
    /// Bytes of one table block after decompression.
    block_bytes = 64 << 20;
    /// Tensors in a checkpoint.
    tensors = 2_000_000;
    /// Axes of one tensor.
    rank = 254;
    /// Bytes of one name.
    name_bytes = 1 << 20;
    /// Stored slices of one tensor.
    slices = 16_384;
    /// Elements of one string or variant tensor.
    string_elements = 16 << 20;
    /// Nodes of a graph or object graph.
    graph_nodes = 2_000_000;
    /// Files of one checkpoint, or of the directory that it lies in.
    files = 65_536;
    /// Bytes of one architecture, mapping or position file.
    text_bytes = 16 << 20;
    /// Rules of a mapping, patterns of its `ignore`, and roles.
    rules = 1024;
    /// Names in the `from` or the `to` of one rule of a mapping.
    rule_names = 64;
    /// Steps of one rule or role of a mapping.
    rule_steps = 16;
    /// Captures and wildcards of one pattern of a mapping.
    captures = 32;
    /// Bytes of one pattern of a mapping that has captures or wildcards.
    pattern_bytes = 4096;
}

impl Limits {
    /// Sets one limit by name; sizes may carry `k`, `m` or `g`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an unknown name, listing the known ones, or a value that is no number.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = parse_size(value).ok_or_else(|| {
            Error::usage("the limit is not a number").field(name).found(format!("'{value}'"))
        })?;
        let known = self.entries();
        match self.slot(name) {
            Some(slot) => *slot = number,
            None => {
                let names = known.iter().map(|(name, _)| *name);
                let error = Error::usage("unknown limit").field(name);
                return Err(error.help(nearest(name, names)));
            }
        }
        Ok(())
    }

    /// Checks `found` against the limit called `name`, before anything is allocated for it.
    ///
    /// # Errors
    /// [`crate::Kind::Limit`]; [`crate::Kind::Usage`] for a limit that does not exist, so that a misspelled name never
    /// switches a check off.
    // Inlined, a check compares two numbers: the name is known then.
    #[inline]
    pub fn check(&self, name: &'static str, found: u64) -> Result<()> {
        match self.value(name) {
            Some(limit) if found <= limit => Ok(()),
            limit => Err(exceeded(name, limit, found)),
        }
    }
}

#[cold]
fn exceeded(name: &'static str, limit: Option<u64>, found: u64) -> Error {
    let Some(limit) = limit else {
        return Error::usage("the codec checks a limit that does not exist")
            .field(name)
            .help("this is a defect of the codec: please report it");
    };
    // What is counted one by one may be more than was found so far.
    let raised = found.max(limit.saturating_mul(2));
    Error::limit(format!("the limit '{name}' is exceeded"))
        .found(found.to_string())
        .expected(format!("at most {limit}"))
        .help(format!("if you trust the file, raise it with --limit {name}={raised}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_limit_lists_the_known_ones() {
        let error = Limits::default().set("tensor", "5").unwrap_err();
        assert!(error.to_string().contains("tensors"), "{error}");
    }

    #[test]
    fn a_check_of_an_unknown_limit_never_passes() {
        assert!(Limits::default().check("header_byte", 0).is_err());
    }

    #[test]
    fn every_limit_can_be_set_and_checked() {
        let names: Vec<_> = Limits::default().entries().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 15);
        for name in names {
            let mut limits = Limits::default();
            limits.set(name, "7").unwrap();
            assert!(limits.check(name, 7).is_ok() && limits.check(name, 8).is_err(), "{name}");
        }
    }

    #[test]
    fn a_limit_set_by_name_is_checked_by_name() {
        let mut limits = Limits::default();
        limits.set("header_bytes", "1k").unwrap();
        assert!(limits.check("header_bytes", 1024).is_ok());
        assert_eq!(limits.check("header_bytes", 1025).unwrap_err().kind(), crate::Kind::Limit);
    }
}
