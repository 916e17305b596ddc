//! The layers that are made, as JSON.

use super::emitter::{Arg, Emitted, Emitter, Held};
use crate::model::Generation;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;

/// A layer that is to be added.
pub(super) struct Request<'n> {
    /// The node's name.
    pub(super) name: &'n str,
    pub(super) class: &'static str,
    pub(super) module: Option<&'static str>,
    /// Its options without its name: a JSON object.
    pub(super) options: Value,
    pub(super) args: Vec<Arg>,
}

impl Emitter<'_> {
    /// Adds a layer of one value, and returns its position.
    pub(super) fn layer(&mut self, name: &str, class: &'static str, options: Value, x: &Held) -> usize {
        self.add(Request { name, class, module: None, options, args: vec![Arg::of(x)] })
    }

    /// Adds a layer, and returns its position.
    pub(super) fn add(&mut self, request: Request) -> usize {
        let Request { name, class, module, options, args } = request;
        let name = self.unique(name);
        let mut config = match options {
            Value::Object(config) => config,
            _ => Map::new(),
        };
        config.insert("name".to_owned(), Value::String(name.clone()));
        self.layers.push(Emitted { name, class, module, config, args, kwargs: Vec::new() });
        self.layers.len() - 1
    }

    /// Gives the layer that was added last a further argument.
    pub(super) fn keyword(&mut self, name: &'static str, arg: Arg) {
        if let Some(layer) = self.layers.last_mut() {
            layer.kwargs.push((name, arg));
        }
    }

    pub(super) fn input_layer(&mut self, name: &str, dims: &[Option<u64>], is_integer: bool) -> usize {
        let key = if self.generation == Generation::Keras3 { "batch_shape" } else { "batch_input_shape" };
        let dtype = if is_integer { "int32" } else { "float32" };
        let options = json!({ key: dims, "dtype": dtype });
        self.add(Request { name, class: "InputLayer", module: None, options, args: Vec::new() })
    }

    /// Returns a name that Keras accepts for a layer, and that no layer has yet.
    fn unique(&mut self, wanted: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut base: String = wanted.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            base.insert_str(0, "layer");
        }
        let mut name = base.clone();
        while self.names.contains_key(&name) {
            let uses = self.names.entry(base.clone()).or_default();
            *uses += 1;
            name = format!("{base}_{uses}");
        }
        self.names.insert(name.clone(), 0);
        name
    }

    /// Returns the configuration of the model.
    pub(super) fn config(&self, outputs: &[(String, Held)]) -> String {
        let name = self.graph.name.as_str();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = if is_name { name } else { "model" };
        let value = match self.is_chain(outputs) {
            true => {
                let layers: Vec<Value> = self.layers.iter().map(|layer| layer.described()).collect();
                json!({"module": "keras", "class_name": "Sequential", "config": {"name": name, "layers": layers}, "registered_name": null})
            }
            false => {
                let order = self.order(outputs);
                let ordered = order.iter().filter_map(|at| self.layers.get(*at));
                let layers: Vec<Value> = ordered.map(|layer| self.connected(layer)).collect();
                let end = |layer: &Emitted, result: usize| json!([layer.name, 0, result]);
                let inputs: Vec<Value> = self
                    .layers
                    .iter()
                    .filter(|layer| layer.class == "InputLayer")
                    .map(|layer| end(layer, 0))
                    .collect();
                let outputs: Vec<Value> = outputs
                    .iter()
                    .filter_map(|(_, held)| Some(end(self.layers.get(held.layer)?, held.result)))
                    .collect();
                let (module, class) = match self.generation {
                    Generation::Keras3 => ("keras.src.models.functional", "Functional"),
                    _ => ("keras", "Model"),
                };
                json!({
                    "module": module, "class_name": class, "registered_name": null,
                    "config": {"name": name, "trainable": true, "layers": layers, "input_layers": inputs, "output_layers": outputs},
                })
            }
        };
        value.to_string()
    }

    /// Whether each layer takes what the one before it makes, and the last one makes the only result.
    fn is_chain(&self, outputs: &[(String, Held)]) -> bool {
        let is_next = |(at, layer): (usize, &Emitted)| {
            let first = at == 0 && layer.class == "InputLayer";
            let next = at > 0 && matches!(layer.args[..], [Arg::Value(from, 0)] if from + 1 == at);
            layer.module.is_none() && layer.kwargs.is_empty() && (first || next)
        };
        let is_end =
            matches!(outputs, [(_, held)] if held.layer + 1 == self.layers.len() && held.result == 0);
        let returns_states =
            self.layers.iter().any(|layer| layer.config.get("return_state") == Some(&Value::Bool(true)));
        self.layers.len() > 1 && is_end && !returns_states && self.layers.iter().enumerate().all(is_next)
    }

    /// Returns the layers in the order that Keras gives them when it loads the model, which decides their paths: first
    /// those that are farthest from the results, and among equals those that a walk from the results meets first.
    fn order(&self, outputs: &[(String, Held)]) -> Vec<usize> {
        let taken = |layer: usize| {
            let mut found = Vec::new();
            if let Some(layer) = self.layers.get(layer) {
                layer
                    .args
                    .iter()
                    .chain(layer.kwargs.iter().map(|(_, arg)| arg))
                    .for_each(|arg| arg.values(&mut found));
            }
            found.into_iter().map(|(layer, _)| layer)
        };
        let mut met: HashMap<usize, usize> = HashMap::new();
        let mut finished = Vec::new();
        for (_, held) in outputs {
            let mut open = vec![(held.layer, false)];
            while let Some((layer, is_done)) = open.pop() {
                if is_done {
                    finished.push(layer);
                } else if !met.contains_key(&layer) {
                    met.insert(layer, met.len());
                    open.push((layer, true));
                    let mut before: Vec<usize> = taken(layer).collect();
                    before.reverse();
                    open.extend(before.into_iter().map(|layer| (layer, false)));
                }
            }
        }
        let mut depths: HashMap<usize, usize> = HashMap::new();
        for layer in finished.iter().rev() {
            let depth = *depths.entry(*layer).or_default();
            for before in taken(*layer) {
                let known = depths.entry(before).or_default();
                *known = (depth + 1).max(*known);
            }
        }
        let is_input = |at: usize| self.layers.get(at).is_some_and(|layer| layer.class == "InputLayer");
        let mut order: Vec<usize> =
            (0..self.layers.len()).filter(|at| met.contains_key(at) || is_input(*at)).collect();
        // An input that nothing takes is the first of the last ones.
        let key = |at: &usize| {
            (Reverse(depths.get(at).copied().unwrap_or(0)), met.get(at).map(|place| place + 1).unwrap_or(0))
        };
        order.sort_by_key(key);
        order
    }

    /// Describes a layer with its call.
    fn connected(&self, layer: &Emitted) -> Value {
        let nodes = match (layer.class, self.generation) {
            ("InputLayer", _) => Vec::new(),
            (_, Generation::Keras3) => {
                let args: Vec<Value> = layer.args.iter().map(|arg| self.argument(arg)).collect();
                let kwargs: Map<String, Value> =
                    layer.kwargs.iter().map(|(name, arg)| ((*name).to_owned(), self.argument(arg))).collect();
                vec![json!({"args": args, "kwargs": kwargs})]
            }
            _ => {
                let mut values = Vec::new();
                layer
                    .args
                    .iter()
                    .chain(layer.kwargs.iter().map(|(_, arg)| arg))
                    .for_each(|arg| arg.values(&mut values));
                let values = values
                    .into_iter()
                    .filter_map(|(from, result)| Some(json!([self.layers.get(from)?.name, 0, result, {}])));
                vec![Value::Array(values.collect())]
            }
        };
        let mut described = layer.described();
        if let Value::Object(map) = &mut described {
            map.insert("name".to_owned(), Value::String(layer.name.clone()));
            map.insert("inbound_nodes".to_owned(), Value::Array(nodes));
        }
        described
    }

    fn argument(&self, arg: &Arg) -> Value {
        match arg {
            Arg::Value(layer, result) => {
                let name = self.layers.get(*layer).map_or("", |layer| layer.name.as_str());
                json!({"class_name": "__keras_tensor__", "config": {
                    "shape": [null], "dtype": "float32", "keras_history": [name, 0, result],
                }})
            }
            Arg::List(items) => Value::Array(items.iter().map(|item| self.argument(item)).collect()),
            Arg::Constant(value) => value.clone(),
        }
    }
}

impl Emitted {
    fn described(&self) -> Value {
        let module = self.module.unwrap_or("keras.layers");
        let registered = self.module.map(|_| self.class);
        json!({"module": module, "class_name": self.class, "config": self.config, "registered_name": registered})
    }
}
