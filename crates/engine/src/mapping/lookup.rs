//! The table of exact names.

use crate::words::quote;
use ckpt_api::{Error, Limit, Limits, Result};
use std::collections::{BTreeMap, HashMap};

/// Entries by source name.
pub(crate) type Lookup = BTreeMap<String, Entry>;

/// The target of one source name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) target: String,
    /// The line of the file; `None` if the mapping was made in code.
    pub(crate) line: Option<usize>,
}

/// Checks that no name is empty or too long, and that no two sources have one target.
pub(crate) fn check_lookup(lookup: &Lookup, limits: &Limits) -> Result<()> {
    limits.check(Limit::Tensors, lookup.len() as u64)?;
    let mut sources = HashMap::with_capacity(lookup.len());
    for (source, Entry { target, line }) in lookup {
        let field = || {
            let line = line.map(|line| format!("line {line}, ")).unwrap_or_default();
            format!("{line}lookup, {}", quote(source))
        };
        for name in [source, target] {
            limits.check(Limit::NameBytes, name.len() as u64).map_err(|error| error.field(field()))?;
            if name.is_empty() {
                let error = Error::mapping("the lookup has an empty name").field(field());
                return Err(error.help("to drop a source name, list it in 'ignore'"));
            }
        }
        if let Some(other) = sources.insert(target, source) {
            return Err(Error::mapping("the lookup gives two sources the same target")
                .field(field())
                .found(format!("{} and {} both become {}", quote(other), quote(source), quote(target)))
                .help("give each its own target, or list one in 'ignore'"));
        }
    }
    Ok(())
}
