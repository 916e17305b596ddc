//! The state of the optimizer: flat tensors beside the parameters, which the ranks cut alike.
//!
//! ```text
//! base_optimizer_state (stages 1 and 2) | optimizer_state_dict (stage 3)
//!   state   number of the group → { exp_avg, exp_avg_sq, …: flat tensors; step: a number, the same for all }
//! ```

use super::flat::Joined;
use super::states::{OPTIMIZER, States, push};
use ckpt_api::{Error, Result};
use ckpt_containers::pickle::Id;
use std::collections::BTreeMap;

const STATE: &str = "state";
/// The key of the state, by whether the ranks cut each parameter (stage 3).
const BASE: &str = "base_optimizer_state";
const OWN: &str = "optimizer_state_dict";

/// Things that are remembered of each parameter: each one is cut at all of them.
const MOST: usize = 64;

/// What the optimizer remembers of every parameter, by name: for each group (stages 1 and 2), or for each rank (stage 3).
#[derive(Default)]
pub(super) struct Slots {
    rows: BTreeMap<String, Vec<Joined>>,
    /// How many groups of all ranks have each one.
    counts: BTreeMap<String, usize>,
    groups: usize,
    /// Where numbers of all parameters are, in the first file.
    pub(super) steps: Vec<Id>,
}

impl Slots {
    /// Adds those of a rank.
    pub(super) fn add(&mut self, part: &States<'_>, stage: u64, rank: usize) -> Result<()> {
        let key = if stage < 3 { BASE } else { OWN };
        let Some(state) = part.value(&[OPTIMIZER, key]) else { return Ok(()) };
        let state = part.tree().entry(state, STATE).unwrap_or(state);
        let groups = part.numbered(state)?;
        for (group, id) in groups.into_iter().enumerate() {
            self.groups += 1;
            for (name, id) in part.entries(id)? {
                match part.elements(id) {
                    Some(_) if name == "step" && rank == 0 && group == 0 => self.steps.push(id),
                    Some(_) if name != "step" => {
                        let flat =
                            part.flat(id).map_err(|error| error.field(name.escape_debug().to_string()))?;
                        let row = if stage < 3 { group } else { rank };
                        if self.rows.len() == MOST && !self.rows.contains_key(&name) {
                            return Err(Error::limit(
                                "the optimizer remembers too many things of each parameter",
                            )
                            .expected(format!("at most {MOST}")));
                        }
                        let rows = self.rows.entry(name.clone()).or_default();
                        if row <= rows.len() {
                            push(rows, row, flat)?;
                            *self.counts.entry(name).or_default() += 1;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Names and rows; `None` for those that only some groups or ranks have.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, Option<&[Joined]>)> {
        self.rows.iter().map(|(name, rows)| {
            let is_whole = self.counts.get(name) == Some(&self.groups);
            (name.as_str(), is_whole.then_some(rows.as_slice()))
        })
    }
}
