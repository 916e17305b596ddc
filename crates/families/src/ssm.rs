//! State space models: lengths that follow from others.

use crate::config::Config;
use ckpt_api::Result;
use serde_json::{Map, Value, json};

/// Names of the lengths in `config.json`, the usual one first.
const HIDDEN: [&str; 3] = ["hidden_size", "d_model", "dim"];
const INNER: [&str; 2] = ["intermediate_size", "d_inner"];
const RANK: [&str; 2] = ["time_step_rank", "dt_rank"];
const EXPAND: &str = "expand";
const HEAD: &str = "head_dim";
/// Lengths that are not stated: how many times the hidden one is the inner one, that of a head, and how many hidden elements share
/// an element of the time step.
const USUAL_EXPAND: u64 = 2;
const USUAL_HEAD: u64 = 64;
const HIDDEN_PER_STEP: u64 = 16;

/// The length of the hidden states.
fn hidden(config: &Config) -> Result<u64> {
    config.count(&HIDDEN).ok_or_else(|| config.lacks(&HIDDEN, "a number"))
}

/// The length inside of a layer.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for one that is not `expand` times the hidden length, which llama.cpp takes it for.
pub(crate) fn inner(config: &Config) -> Result<u64> {
    let expand = config.count(&[EXPAND]).unwrap_or(USUAL_EXPAND);
    let expanded =
        hidden(config)?.checked_mul(expand).ok_or_else(|| config.lacks(&[EXPAND], "a small number"))?;
    let stated = config.count(&INNER).unwrap_or(expanded);
    match stated == expanded {
        true => Ok(stated),
        false => Err(config.lacks(&INNER, &format!("{expanded}, which is {expand} times {}", HIDDEN[0]))),
    }
}

/// The length of the projection that time steps are made of.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if neither it nor the hidden length is stated.
pub(crate) fn rank(config: &Config) -> Result<u64> {
    // Old configurations have the text `auto`.
    match config.count(&RANK) {
        Some(rank) => Ok(rank),
        None => Ok(hidden(config)?.div_ceil(HIDDEN_PER_STEP)),
    }
}

/// The number of heads.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a length of a head that does not divide the inner length.
pub(crate) fn heads(config: &Config) -> Result<u64> {
    let (inner, head) = (inner(config)?, config.count(&[HEAD]).unwrap_or(USUAL_HEAD));
    let is_whole = head > 0 && inner.is_multiple_of(head);
    let heads = is_whole.then(|| inner / head);
    heads.ok_or_else(|| config.lacks(&[HEAD], &format!("a divisor of {inner}, the inner length")))
}

/// Adds the inner length to a configuration that has the hidden one.
pub(crate) fn add_inner(inner: u64, config: &mut Map<String, Value>) {
    config.insert(INNER[0].to_owned(), json!(inner));
    let hidden = config.get(HIDDEN[0]).and_then(Value::as_u64).filter(|hidden| *hidden > 0);
    if let Some(hidden) = hidden.filter(|hidden| inner.is_multiple_of(*hidden)) {
        config.insert(EXPAND.to_owned(), json!(inner / hidden));
    }
}

/// Adds the length of the projection of time steps.
pub(crate) fn add_rank(rank: u64, config: &mut Map<String, Value>) {
    config.insert(RANK[0].to_owned(), json!(rank));
}

/// Adds the number of heads to a configuration that has the inner length, and the length of each.
pub(crate) fn add_heads(heads: u64, config: &mut Map<String, Value>) {
    config.insert("num_heads".to_owned(), json!(heads));
    let inner = config.get(INNER[0]).and_then(Value::as_u64);
    if let Some(head) = inner.and_then(|inner| inner.checked_div(heads)) {
        config.insert(HEAD.to_owned(), json!(head));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(values: Value) -> Config {
        Config::of(values.as_object().unwrap_or(&Map::new()))
    }

    #[test]
    fn lengths_that_are_not_stated_follow_from_the_hidden_one() {
        let own = config(json!({"hidden_size": 72, "time_step_rank": "auto", "head_dim": 16}));
        assert_eq!((inner(&own).unwrap(), rank(&own).unwrap(), heads(&own).unwrap()), (144, 5, 9));
        let wide = own.with("expand", json!(4)).with("time_step_rank", json!(7));
        assert_eq!((inner(&wide).unwrap(), rank(&wide).unwrap(), heads(&wide).unwrap()), (288, 7, 18));
    }

    #[test]
    fn lengths_that_contradict_each_other_are_refused() {
        let own = config(json!({"hidden_size": 72, "intermediate_size": 100}));
        assert!(inner(&own).unwrap_err().to_string().contains("144, which is 2 times hidden_size"));
        for head in [0, 5] {
            let error = heads(&config(json!({"hidden_size": 8, "head_dim": head}))).unwrap_err();
            assert_eq!(error.context().field, Some("head_dim"));
        }
        assert!(inner(&config(json!({"hidden_size": u64::MAX}))).is_err());
        assert!(rank(&config(json!({}))).is_err());
    }

    #[test]
    fn lengths_come_back() {
        let mut made = Map::new();
        made.insert("hidden_size".to_owned(), json!(72));
        add_inner(144, &mut made);
        add_rank(5, &mut made);
        add_heads(9, &mut made);
        let made = Config::of(&made);
        assert_eq!((inner(&made).unwrap(), rank(&made).unwrap(), heads(&made).unwrap()), (144, 5, 9));
        assert_eq!((made.count(&["expand"]), made.count(&["head_dim"])), (Some(2), Some(16)));
    }
}
