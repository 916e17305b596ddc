//! The tables of data files, and what their paths may be.

use super::body::Body;
use crate::format::check_path;
use ckpt_api::{Error, Result};
use std::sync::Arc;

/// Bytes of one path or key, at most.
pub(super) const LONGEST: u64 = u16::MAX as u64;

/// Bytes of all paths and keys of a database, at most: prefixes that are stored once make many of few.
const MOST_BYTES: u64 = 256 << 20;

/// How many bytes paths and keys may still have.
pub(crate) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Budget(MOST_BYTES)
    }
}

impl Budget {
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        match self.0.checked_sub(bytes as u64) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(Error::limit("the keys and paths of the database have too many bytes")
                .expected(format!("at most {MOST_BYTES} bytes"))),
        }
    }
}

/// A data file that a node or a manifest refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataFile {
    /// Below the folder of the database; empty for none.
    pub(super) path: Arc<str>,
    /// What of the path is before the paths that a node in the file states.
    pub(super) base: Arc<str>,
}

/// Parses a table of data files in an object that was read from below `transitive`.
pub(super) fn table(body: &mut Body<'_>, transitive: &str, budget: &mut Budget) -> Result<Vec<DataFile>> {
    let len = body.count("data files", u64::MAX)?;
    if len == 0 {
        return Ok(Vec::new());
    }
    let prefixes = body.column("prefix lengths of data files", len - 1)?;
    let suffixes = body.column("suffix lengths of data files", len)?;
    let bases = body.column("base lengths of data files", len)?;
    let (mut files, mut before, mut base_before) = (Vec::with_capacity(len), Vec::new(), 0usize);
    let prefixes = std::iter::once(0).chain(prefixes);
    for ((prefix, suffix), base) in prefixes.zip(suffixes).zip(bases) {
        let at = body.offset();
        let wrong = |what: &'static str| Error::corrupt(what).offset(at).field("data files");
        let suffix = body.bytes("paths of data files", suffix)?;
        let kept = usize::try_from(prefix).ok().and_then(|prefix| before.get(..prefix));
        let kept = kept.ok_or_else(|| wrong("a path shares more with the path before than that has"))?;
        let path: Vec<u8> = [kept, suffix].concat();
        budget.take(path.len())?;
        let base_len = usize::try_from(base).ok().filter(|base| *base <= path.len());
        let base_len = base_len.ok_or_else(|| wrong("the base of a path is longer than the path"))?;
        if path.len() as u64 > LONGEST {
            return Err(wrong("a path is too long").expected(format!("at most {LONGEST} bytes")));
        }
        if kept.len() > base_len.min(base_before)
            && (base_len != base_before || before.get(..base_len) != path.get(..base_len))
        {
            return Err(wrong("a path shares more with the path before than their bases allow"));
        }
        let text = str::from_utf8(&path).map_err(|_| wrong("a path is not UTF-8"))?;
        files.push(file(text, base_len, transitive).map_err(|error| error.offset(at))?);
        (before, base_before) = (path, base_len);
    }
    Ok(files)
}

fn file(path: &str, base: usize, transitive: &str) -> Result<DataFile> {
    if path.is_empty() {
        return Ok(DataFile { path: "".into(), base: transitive.into() });
    }
    let base =
        path.get(..base).ok_or_else(|| Error::corrupt("the base of a path ends within a character"))?;
    let whole = format!("{transitive}{path}");
    check_path(&whole).map_err(|error| error.field("data files"))?;
    Ok(DataFile { path: whole.into(), base: format!("{transitive}{base}").into() })
}
