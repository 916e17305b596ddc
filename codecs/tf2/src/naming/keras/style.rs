//! The program that restores the checkpoint, and how its model is built.

/// The program that restores the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Keras 3: `tf.train.Checkpoint(model=m).restore(PREFIX)`.
    Keras3,
    /// Keras 2 (`tf_keras`): `m.load_weights(PREFIX)` too.
    Keras2,
    /// TensorFlow 1, `tf.compat.v1.train.Saver`: keys such as `dense/kernel`, and no object graph.
    Tf1,
}

impl Style {
    /// Returns the style with this name in the option `names`.
    pub(crate) fn from_name(name: &str) -> Option<Style> {
        [Style::Keras3, Style::Keras2, Style::Tf1].into_iter().find(|style| style.name() == name)
    }

    /// Returns the name of the style in the option `names`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Style::Keras3 => "keras3",
            Style::Keras2 => "keras2",
            Style::Tf1 => "tf1",
        }
    }
}

/// How the model that restores has the activations of dense and convolutional layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activations {
    /// As arguments of the layers: `Dense(10, activation="relu")`.
    Arguments,
    /// As layers of their own: `Dense(10)`, `ReLU()`.
    Layers,
}
