//! step.txt of RAdam: how many steps each weight was trained.

use crate::records::Record;
use ckpt_api::{Error, File, Limit, Limits, Result};
use std::collections::HashSet;

/// Reads the text, which must have one line for every weight.
pub(crate) fn read(file: &File, weights: &[Record], limits: &Limits) -> Result<String> {
    limits.check(Limit::HeaderBytes, file.len())?;
    let text = String::from_utf8(file.bytes(0, file.len())?).map_err(|error| {
        Error::corrupt("the text is not UTF-8").offset(error.utf8_error().valid_up_to() as u64)
    })?;
    check(&text, weights.iter().map(|record| record.id.as_str()))?;
    Ok(text)
}

/// Whether the text has one line `id,step` for every one of these, and no other.
pub(crate) fn check<'a>(text: &str, ids: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut missing: HashSet<&str> = ids.collect();
    let wrong = |line: usize, found: &str| {
        Err(Error::corrupt("a line does not say how many steps a weight was trained")
            .field(format!("line {}", line + 1))
            .found(format!("'{}'", found.chars().take(80).collect::<String>().escape_debug()))
            .expected("id,step and the end of the line, once for every weight"))
    };
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let pair = line.strip_suffix('\n').and_then(|line| line.rsplit_once(','));
        match pair {
            Some((id, step)) if step.parse::<u64>().is_ok() && missing.remove(id) => {}
            _ => return wrong(number, line),
        }
    }
    match missing.into_iter().min() {
        Some(id) => Err(Error::corrupt("a weight has no line").tensor(id)),
        None => Ok(()),
    }
}
