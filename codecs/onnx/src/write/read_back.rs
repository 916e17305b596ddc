//! Reads what is to be written.

use crate::read::Parsed;
use ckpt_api::{Input, Limit, Limits, ReadAt, Result, Rules};
use ckpt_containers::structure::Structure;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads a model that is to be written.
pub(super) fn read_back(structure: &Arc<Structure>, name: &str) -> Result<Parsed> {
    let file: Arc<dyn ReadAt> = structure.clone();
    let input = Input::of(name, BTreeMap::from([(name.to_owned(), file)]));
    let main = input.main()?;
    let unlimited = Limits::default().with(Limit::HeaderBytes, u64::MAX);
    let mut rules = Rules { lenient: true, ..Rules::default() };
    Parsed::of(&input, &main, &mut rules, &unlimited)
}
