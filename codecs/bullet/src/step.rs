//! step.txt: how many steps RAdam has trained each weight.

use ckpt_api::{Error, Result};
use std::collections::HashSet;

/// Checks that the text has one line `id,step` for each of these weights, and no other line.
pub(crate) fn check<'a>(text: &str, ids: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut missing: HashSet<&str> = ids.collect();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let pair = line.strip_suffix('\n').and_then(|line| line.rsplit_once(','));
        let is_valid = pair.is_some_and(|(id, step)| step.parse::<u64>().is_ok() && missing.remove(id));
        if !is_valid {
            return Err(Error::corrupt("a line is not a weight's id and its number of steps")
                .field(format!("line {}", number + 1))
                .found(format!("'{}'", line.chars().take(80).collect::<String>().escape_debug()))
                .expected("one line id,step for every weight"));
        }
    }
    match missing.into_iter().min() {
        Some(id) => Err(Error::corrupt("a weight has no line").tensor(id)),
        None => Ok(()),
    }
}
