//! Lowers `x[…]`: places, ranges, and new axes.

use super::arguments::{Arg, Args};
use super::lowering::Lowering;
use super::operations::argument;
use super::values::Val;
use crate::layer::Reason;
use ckpt_graph::Range;
use serde_json::Value;

impl Lowering {
    /// Lowers `x[…]`.
    pub(super) fn item(&mut self, args: &Args, x: &Val) -> Result<Val, Reason> {
        let spec = argument(args, 1, &["key", "slice_spec"]);
        let single;
        let items = match spec {
            Some(Arg::List(items)) => &items[..],
            Some(other) => {
                single = [other.clone()];
                &single[..]
            }
            None => return Err("it lacks a place".to_owned()),
        };
        let keys =
            items.iter().map(key).collect::<Option<Vec<Key>>>().ok_or("its places depend on a value")?;
        let taken = keys.iter().filter(|key| matches!(key, Key::At(_) | Key::Range(..))).count();
        let rest = x.rank().checked_sub(taken).ok_or("it has more places than its input has axes")?;
        let (mut axis, mut ranges, mut removed, mut added, mut place) =
            (0, Vec::new(), Vec::new(), Vec::new(), 0usize);
        for key in keys {
            match key {
                Key::New => {
                    added.push(place);
                    place += 1;
                }
                Key::Rest => {
                    axis += rest;
                    place += rest;
                }
                Key::At(at) => {
                    ranges.push(Range::index(axis, at));
                    removed.push(axis);
                    axis += 1;
                }
                Key::Range(begin, end, step) => {
                    let step = step.unwrap_or(1);
                    if step == 0 {
                        return Err("its step is 0".to_owned());
                    }
                    let open = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
                    if (begin.unwrap_or(0), end, step) != (0, None, 1) {
                        ranges.push(Range {
                            axis,
                            begin: begin.unwrap_or(open.0),
                            end: end.unwrap_or(open.1),
                            step,
                        });
                    }
                    axis += 1;
                    place += 1;
                }
            }
        }
        let x = if removed.is_empty() { x.clone() } else { self.values.last(x)? };
        let mut made = self.values.slice(&x, &ranges)?;
        if !removed.is_empty() {
            made = self.values.squeeze(&made, &removed)?;
        }
        if added.is_empty() { Ok(made) } else { self.values.unsqueeze(&made, &added) }
    }
}

/// A part of `x[…]`.
enum Key {
    At(i64),
    Range(Option<i64>, Option<i64>, Option<i64>),
    New,
    Rest,
}

fn key(arg: &Arg) -> Option<Key> {
    let Arg::Constant(value) = arg else { return None };
    match value {
        Value::Null => Some(Key::New),
        Value::Number(number) => number.as_i64().map(Key::At),
        Value::Object(map) => {
            let config = match map.get("class_name").and_then(Value::as_str) {
                Some("__slice__") => map.get("config")?.as_object()?,
                Some("__ellipsis__") => return Some(Key::Rest),
                Some(_) => return None,
                None => map,
            };
            let end = |name: &str| match config.get(name) {
                None | Some(Value::Null) => Some(None),
                Some(value) => value.as_i64().map(Some),
            };
            Some(Key::Range(end("start")?, end("stop")?, end("step")?))
        }
        Value::String(text) if text == "..." => Some(Key::Rest),
        _ => None,
    }
}
