//! How Keras numbers the objects of a container by their classes, and how messages show names.

use std::collections::HashMap;

/// Returns a class in snake case, as Keras does: `Conv2DTranspose` is `conv2d_transpose`, `PReLU` is `p_re_lu`.
pub(super) fn snake_case(class: &str) -> String {
    let word: Vec<char> = class.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
    let at = |chars: &[char], place: usize| chars.get(place).copied().unwrap_or('\0');
    let mut first = Vec::with_capacity(word.len() * 2);
    let mut place = 0;
    // An upper-case letter with lower-case ones behind it begins a word, unless it is the first character.
    while place < word.len() {
        first.push(at(&word, place));
        place += 1;
        if at(&word, place).is_ascii_uppercase() && at(&word, place + 1).is_ascii_lowercase() {
            first.push('_');
            first.push(at(&word, place));
            place += 1;
            while at(&word, place).is_ascii_lowercase() {
                first.push(at(&word, place));
                place += 1;
            }
        }
    }
    let mut snake = String::with_capacity(first.len() + 4);
    let mut before = '\0';
    for c in first {
        if before.is_ascii_lowercase() && c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
        before = c;
    }
    snake
}

/// Numbers names: the second `dense` is `dense_1`.
#[derive(Default)]
pub(super) struct Numbers(HashMap<String, u64>);

impl Numbers {
    /// Returns the name of the next object of a class.
    pub(super) fn next(&mut self, class: &str) -> String {
        let name = snake_case(class);
        let uses = self.0.entry(name.clone()).or_default();
        *uses += 1;
        match *uses {
            1 => name,
            uses => format!("{name}_{}", uses - 1),
        }
    }
}

/// A name from the file, shortened for a message.
pub(super) fn shown_name(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_as_keras_names_it() {
        for (class, name) in [
            ("Dense", "dense"),
            ("Conv2D", "conv2d"),
            ("Conv2DTranspose", "conv2d_transpose"),
            ("SeparableConv2D", "separable_conv2d"),
            ("PReLU", "p_re_lu"),
            ("ReLU", "re_lu"),
            ("LSTM", "lstm"),
            ("GRUCell", "gru_cell"),
            ("BatchNormalization", "batch_normalization"),
            ("GlobalAveragePooling2D", "global_average_pooling2d"),
            ("RMSNormalization", "rms_normalization"),
            ("TimeDistributed", "time_distributed"),
            ("StackedRNNCells", "stacked_rnn_cells"),
            ("MyLayer>Dense", "my_layer_dense"),
        ] {
            assert_eq!(snake_case(class), name);
        }
    }

    #[test]
    fn objects_of_a_class_are_numbered_from_the_second_on() {
        let mut numbers = Numbers::default();
        let names: Vec<String> = ["Dense", "ReLU", "Dense", "Dense"].map(|class| numbers.next(class)).into();
        assert_eq!(names, ["dense", "re_lu", "dense_1", "dense_2"]);
    }
}
