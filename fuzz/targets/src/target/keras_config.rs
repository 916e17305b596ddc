//! Configurations of Keras models: their variables, their graphs, and the configurations of these graphs.

use ckpt_api::{Checkpoint, DType, Limits, Shape, Tensor};
use ckpt_keras::config::{Generation, Model, Optimizer, Variable};

pub(super) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for version in [None, Some("1.2.2"), Some("2.21.0"), Some("3.15.1")] {
        let _ = Optimizer::from_training_config(text, Generation::Keras3);
        let Ok(model) = Model::parse(text, version, &Limits::default()) else { continue };
        let variables = model.variables();
        let trained: Vec<&Variable> = variables.trained().collect();
        if let Some(optimizer) = &model.optimizer {
            let _ = optimizer.variables(&trained, |_| Some(2));
        }
        let Ok(graph) = model.graph() else { continue };
        graph.check().expect("a graph that is made can run in its order");
        let tensors = variables.list.iter().map(|variable| {
            let rank = variable.axes.as_ref().map_or(1, |axes| axes.len());
            let shape = Shape::new(vec![3u64; rank]).expect("a small shape");
            let mut tensor = Tensor::new(&variable.name, DType::F32, shape);
            tensor.axes.clone_from(&variable.axes);
            tensor
        });
        let checkpoint =
            Checkpoint { tensors: tensors.collect(), graph: Some(graph), ..Checkpoint::default() };
        let _ = Model::describe(&checkpoint, model.generation);
    }
}
