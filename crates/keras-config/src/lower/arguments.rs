//! The arguments of a call, as values of the graph.

use super::values::Val;
use crate::layer::Reason;
use serde_json::Value;
use std::collections::BTreeMap;

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Value(Val),
    List(Vec<Arg>),
    Constant(Value),
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    pub args: Vec<Arg>,
    pub kwargs: BTreeMap<String, Arg>,
}

impl Arg {
    fn values(&self, found: &mut Vec<Val>) {
        match self {
            Arg::Value(val) => found.push(val.clone()),
            Arg::List(items) => items.iter().for_each(|item| item.values(found)),
            Arg::Constant(_) => {}
        }
    }

    /// Returns the values within an argument.
    pub fn all(&self) -> Vec<Val> {
        let mut found = Vec::new();
        self.values(&mut found);
        found
    }

    /// Whether the argument is left out.
    pub fn is_none(&self) -> bool {
        matches!(self, Arg::Constant(Value::Null))
    }
}

impl Args {
    /// The arguments of a call with one value.
    pub fn of(val: Val) -> Args {
        Args { args: vec![Arg::Value(val)], kwargs: BTreeMap::new() }
    }

    /// Returns an argument by its place or its name.
    pub fn get(&self, place: usize, name: &str) -> Option<&Arg> {
        self.args.get(place).or_else(|| self.kwargs.get(name)).filter(|arg| !arg.is_none())
    }

    /// Returns an argument that is a value.
    pub fn value(&self, place: usize, name: &str) -> Result<Option<Val>, Reason> {
        match self.get(place, name) {
            None => Ok(None),
            Some(Arg::Value(val)) => Ok(Some(val.clone())),
            Some(_) => Err(format!("its argument '{name}' is not a value of another layer")),
        }
    }

    /// Returns the values of the first argument, and refuses values in others.
    pub fn first_values(&self) -> Result<Vec<Val>, Reason> {
        let inputs =
            self.args.first().or_else(|| self.kwargs.get("inputs")).map(Arg::all).unwrap_or_default();
        let more = self.args.iter().skip(1).find(|arg| !arg.all().is_empty());
        let keyword =
            self.kwargs.iter().find(|(name, arg)| name.as_str() != "inputs" && !arg.all().is_empty());
        if more.is_some() {
            return Err("it takes several arguments".to_owned());
        }
        match keyword {
            Some((name, _)) => Err(format!("it takes a value as its argument '{name}'")),
            None => Ok(inputs),
        }
    }

    /// Returns all values, in the order of the arguments.
    pub fn all_values(&self) -> Result<Vec<Val>, Reason> {
        let mut found = Vec::new();
        self.args.iter().for_each(|arg| arg.values(&mut found));
        if let Some(inputs) = self.kwargs.get("inputs") {
            inputs.values(&mut found);
        }
        match self.kwargs.iter().find(|(name, arg)| name.as_str() != "inputs" && !arg.all().is_empty()) {
            Some((name, _)) => Err(format!("it takes a value as its argument '{name}'")),
            None => Ok(found),
        }
    }

    /// Returns the only value.
    pub fn only(&self) -> Result<Val, Reason> {
        let [only] = <[Val; 1]>::try_from(self.first_values()?)
            .map_err(|all| format!("it takes one value, but is given {}", all.len()))?;
        Ok(only)
    }

    /// Whether a keyword is true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.kwargs.get(name), Some(Arg::Constant(Value::Bool(true))))
    }
}
