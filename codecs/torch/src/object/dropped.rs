//! Values that are left out.

use std::fmt;

/// Values that are left out: how many, and what the first of them are.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) count: usize,
    /// Each with its name and what it is.
    first: Vec<String>,
}

impl Dropped {
    /// Values that a note lists.
    const SHOWN: usize = 12;

    pub(crate) fn add(&mut self, name: &str, why: impl FnOnce() -> String) {
        self.add_within(|| name.to_owned(), why);
    }

    /// Adds a value whose name takes work.
    pub(crate) fn add_within(&mut self, name: impl FnOnce() -> String, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push(format!("'{}' ({})", name().escape_debug(), why()));
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
