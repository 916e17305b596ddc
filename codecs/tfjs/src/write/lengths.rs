//! What is known of the lengths of a layer's result: how many axes there are, and the length of the last.

use serde_json::Value;

/// Lengths of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// The number of axes, with that of the batch.
    pub(super) rank: usize,
    /// The length of the last axis.
    pub(super) last: Option<u64>,
}

/// The lengths of a layer's result, which takes values of these; `None` if they are not known.
pub(super) fn after(layer: &Value, taken: &[Option<Lengths>]) -> Option<Lengths> {
    let config = layer.get("config")?;
    let number = |config: &Value, key: &str| config.get(key).and_then(Value::as_u64);
    let stated = || {
        let shape = config.get("batch_input_shape")?.as_array()?;
        Some(Lengths { rank: shape.len(), last: shape.last().and_then(Value::as_u64) })
    };
    let first = taken.first().copied().flatten();
    let known = |rank: usize, last: Option<u64>| Some(Lengths { rank, last });
    let own = |key: &str| known(first.or_else(stated)?.rank, number(config, key));
    let steps = |config: &Value, factor: u64| {
        let returns = config.get("return_sequences") == Some(&Value::Bool(true));
        known(
            if returns { 3 } else { 2 },
            number(config, "units").and_then(|units| units.checked_mul(factor)),
        )
    };
    match layer.get("class_name")?.as_str()? {
        "InputLayer" => stated(),
        "Dense" => own("units"),
        "Conv1D" | "Conv2D" | "Conv3D" | "Conv2DTranspose" | "Conv3DTranspose" | "SeparableConv2D" => {
            own("filters")
        }
        "DepthwiseConv2D" => {
            let taken = first.or_else(stated)?;
            let factor = number(config, "depth_multiplier").unwrap_or(1);
            known(taken.rank, taken.last.and_then(|last| last.checked_mul(factor)))
        }
        "Flatten" => known(2, None),
        "GlobalAveragePooling1D" | "GlobalAveragePooling2D" | "GlobalMaxPooling1D" | "GlobalMaxPooling2D" => {
            known(2, first?.last)
        }
        "Reshape" => {
            let shape = config.get("target_shape")?.as_array()?;
            known(shape.len().checked_add(1)?, shape.last().and_then(Value::as_u64))
        }
        "RepeatVector" => known(3, first?.last),
        "Embedding" => known(first.or_else(stated)?.rank.checked_add(1)?, number(config, "output_dim")),
        "LSTM" | "GRU" | "SimpleRNN" => steps(config, 1),
        "Bidirectional" => {
            let is_joined = config.get("merge_mode").and_then(Value::as_str) == Some("concat");
            steps(config.get("layer")?.get("config")?, if is_joined { 2 } else { 1 })
        }
        "Permute" => known(first.or_else(stated)?.rank, None),
        "Concatenate" => {
            let rank = first?.rank;
            let axis = config.get("axis").and_then(Value::as_i64).unwrap_or(-1);
            let is_last =
                axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis.checked_add(1) == Some(rank));
            let sum = || taken.iter().try_fold(0u64, |sum, own| sum.checked_add((*own)?.last?));
            known(rank, if is_last { sum() } else { first?.last })
        }
        "ZeroPadding2D" | "Cropping2D" | "UpSampling2D" | "MaxPooling2D" | "AveragePooling2D"
            if config.get("data_format").and_then(Value::as_str) == Some("channels_first") =>
        {
            known(first.or_else(stated)?.rank, None)
        }
        "Dot" | "RNN" | "TimeDistributed" | "Sequential" | "Functional" => None,
        _ => first.or_else(stated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn channels_are_followed_through_layers() {
        let image = Some(Lengths { rank: 4, last: Some(3) });
        let of = |class: &str, config: Value, taken: &[Option<Lengths>]| {
            after(&json!({ "class_name": class, "config": config }), taken).map(|own| (own.rank, own.last))
        };
        assert_eq!(
            of("InputLayer", json!({ "batch_input_shape": [null, 8, 8, 3] }), &[]),
            Some((4, Some(3)))
        );
        assert_eq!(of("Conv2D", json!({ "filters": 5 }), &[image]), Some((4, Some(5))));
        assert_eq!(of("DepthwiseConv2D", json!({ "depth_multiplier": 2 }), &[image]), Some((4, Some(6))));
        assert_eq!(of("Concatenate", json!({ "axis": -1 }), &[image, image]), Some((4, Some(6))));
        assert_eq!(of("Concatenate", json!({ "axis": 3 }), &[image, None]), Some((4, None)));
        assert_eq!(of("GlobalMaxPooling2D", json!({}), &[image]), Some((2, Some(3))));
        assert_eq!(of("Flatten", json!({}), &[image]), Some((2, None)));
        assert_eq!(of("Functional", json!({}), &[image]), None);
    }
}
