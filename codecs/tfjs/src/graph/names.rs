//! What weights are called: the names of TensorFlow.js, of Keras's converter, and of Keras's variables.

use ckpt_api::Axis;
use ckpt_keras_config::{Model, Variable};

/// Prefixes that the names of variables have, and names of weights lack: those of models within the model.
pub(crate) struct Names {
    /// Each ends with `/`; the longest first.
    scopes: Vec<String>,
}

impl Names {
    pub(crate) fn of(model: &Model) -> Self {
        let (mut scopes, mut open) = (Vec::new(), vec![(model, String::new())]);
        while let Some((model, scope)) = open.pop() {
            for layer in &model.layers {
                let Some(inner) = &layer.model else { continue };
                let scope = format!("{scope}{}/", layer.name);
                scopes.push(scope.clone());
                open.push((inner, scope));
            }
        }
        scopes.sort_by_key(|scope| std::cmp::Reverse(scope.len()));
        Names { scopes }
    }

    /// The name of a variable in TensorFlow.js: `lstm/kernel` of `encoder/lstm/lstm_cell/kernel`.
    pub(crate) fn own(&self, variable: &Variable) -> String {
        let scope = self.scopes.iter().find(|scope| variable.name.starts_with(scope.as_str()));
        let name = scope.map_or(variable.name.as_str(), |scope| {
            variable.name.strip_prefix(scope.as_str()).unwrap_or(&variable.name)
        });
        // Keras 3 calls it a kernel alone.
        let is_depthwise = variable.axes.as_ref().is_some_and(|axes| axes.last() == Some(&Axis::Multiplier));
        match (shortened(name), name.strip_suffix("/kernel")) {
            (Some(short), _) if is_cell(name) => short,
            (_, Some(layer)) if is_depthwise => format!("{layer}/depthwise_kernel"),
            _ => name.to_owned(),
        }
    }
}

/// A name without its next-to-last part, as TensorFlow.js looks for it if the model has no weight of the name itself;
/// `None` for one of fewer than three parts.
pub(crate) fn shortened(name: &str) -> Option<String> {
    let (rest, role) = name.rsplit_once('/')?;
    let (scope, _) = rest.rsplit_once('/')?;
    Some(format!("{scope}/{role}"))
}

/// Whether the next-to-last part of a name is that of a recurrent cell.
fn is_cell(name: &str) -> bool {
    let part = name.rsplit('/').nth(1).unwrap_or_default();
    ["lstm_cell", "gru_cell", "simple_rnn_cell", "conv_lstm2d_cell", "conv_lstm1d_cell", "conv_lstm3d_cell"]
        .contains(&part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Limits;

    #[test]
    fn models_within_the_model_and_cells_take_no_part_in_names() {
        let config = r#"{"class_name": "Sequential", "config": {"name": "s", "layers": [
            {"class_name": "Sequential", "config": {"name": "encoder", "layers": [
              {"class_name": "LSTM", "config": {"name": "a/lstm", "units": 2, "batch_input_shape": [null, 3, 4]}}]}},
            {"class_name": "Dense", "config": {"name": "head", "units": 1}}]}}"#;
        let model = Model::parse(config, Some("2"), &Limits::default()).unwrap();
        let names = Names::of(&model);
        let own: Vec<String> = model.variables().list.iter().map(|variable| names.own(variable)).collect();
        assert_eq!(
            own,
            ["a/lstm/kernel", "a/lstm/recurrent_kernel", "a/lstm/bias", "head/kernel", "head/bias"]
        );
    }

    #[test]
    fn a_name_of_two_parts_is_not_shortened() {
        assert_eq!(shortened("gru/gru_cell/kernel").as_deref(), Some("gru/kernel"));
        assert_eq!((shortened("fc/kernel"), shortened("kernel")), (None, None));
    }
}
