//! Damaged configurations do no harm.

use super::support::{Fixture, fixtures};
use ckpt_api::{Checkpoint, DType, Limits, Shape, Tensor};
use ckpt_keras::config::{Generation, Model};
use proptest::prelude::*;
use std::sync::LazyLock;

static MODELS: LazyLock<Vec<Fixture>> = LazyLock::new(fixtures);

/// Reads a configuration, lists its variables, lowers it, and describes the graph again.
fn use_all(text: &str, lens: &[u64]) {
    let Ok(model) = Model::parse(text, None, &Limits::default()) else { return };
    let variables = model.variables();
    if let Some(optimizer) = &model.optimizer {
        let trained: Vec<_> = variables.trained().collect();
        let _ = optimizer.variables(&trained, |_| Some(2));
    }
    let Ok(graph) = model.graph() else { return };
    graph.check().unwrap();
    let tensors = variables.list.iter().enumerate().map(|(at, variable)| {
        let rank = variable.axes.as_ref().map_or(2, |axes| axes.len());
        let shape: Vec<u64> = (0..rank).map(|axis| lens[(at + axis) % lens.len()]).collect();
        let mut tensor = Tensor::new(&variable.name, DType::F32, Shape::new(shape).unwrap());
        tensor.axes.clone_from(&variable.axes);
        tensor
    });
    let checkpoint = Checkpoint { tensors: tensors.collect(), graph: Some(graph), ..Checkpoint::default() };
    for generation in [Generation::Keras2, Generation::Keras3] {
        let _ = Model::describe(&checkpoint, generation);
    }
}

/// Replaces a number or a word of the text.
fn damaged(text: &str, at: usize, with: &str) -> String {
    let words: Vec<(usize, usize)> = text
        .match_indices([':', ',', '['])
        .map(|(begin, _)| {
            let rest = &text[begin + 1..];
            (begin + 1, begin + 1 + rest.find([',', '}', ']', '[', '{']).unwrap_or(0))
        })
        .filter(|(begin, end)| begin < end)
        .collect();
    let (begin, end) = words[at % words.len()];
    format!("{}{with}{}", &text[..begin], &text[end..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_configuration_is_read_or_refused(
        which in 0usize..64,
        changes in prop::collection::vec((any::<usize>(), prop::sample::select(vec![
            "null", "0", "1", "-1", "3", "true", "false", "[]", "{}", "\"same\"", "\"channels_first\"", "9223372036854775807",
            "-9223372036854775808", "18446744073709551615", "1e300", "[1,2]", "[[0,0]]", "\"x\"", "0.5",
        ])), 1..5),
        lens in prop::collection::vec(0u64..5, 1..4),
    ) {
        let mut text = MODELS[which].config.clone();
        for (at, with) in changes {
            text = damaged(&text, at, with);
        }
        use_all(&text, &lens);
    }
}
