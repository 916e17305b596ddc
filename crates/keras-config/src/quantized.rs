//! Kernels that are stored as integers: what they stand for, and along which axis two of them share a byte.

use super::model::Layer;
use ckpt_api::Shape;

/// The versions 3.11 to 3.13 pack a kernel along its first axis, and later ones along its last.
const FIRST_PACKED_ALONG_LAST: u64 = 14;
const FIRST_PACKED: u64 = 11;

/// How the kernel of a layer is stored as integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantized {
    /// The mode that the layer states: `int8`, `int4` or `int4/128`.
    pub mode: String,
    /// Length of the last axis before packing, if the layer states it.
    last: Option<u64>,
}

impl Quantized {
    /// How the kernel of a layer is stored; `None` for one of floats.
    pub(super) fn of(layer: &Layer) -> Option<Self> {
        let key = match layer.class.as_str() {
            "Dense" => Some("units"),
            "Embedding" => Some("output_dim"),
            "EinsumDense" => None,
            _ => return None,
        };
        let mode = layer.quantization().filter(|mode| is_mode(mode, "int8") || is_mode(mode, "int4"))?;
        let last = key.and_then(|key| layer.size(key).ok());
        Some(Quantized { mode: mode.to_owned(), last })
    }

    /// Whether two integers of 4 bits share a byte.
    pub fn is_packed(&self) -> bool {
        is_mode(&self.mode, "int4")
    }

    /// Whether each group of the inputs has its own scale and zero point.
    fn has_groups(&self) -> bool {
        let block = self.mode.split_once('/').and_then(|(_, block)| block.parse::<i64>().ok());
        block.is_some_and(|block| block > 0)
    }

    /// What a weight is.
    pub fn formula(&self) -> &'static str {
        if self.has_groups() { "(q - zero) * scale" } else { "q / scale" }
    }

    /// The axis along which two integers share a byte, if shape or version show it.
    pub fn packed_axis(&self, shape: &Shape, version: Option<&str>) -> Option<usize> {
        if !self.is_packed() || shape.rank() == 0 {
            return None;
        }
        let by_shape = || {
            let (len, stored) = (self.last?, *shape.last()?);
            let packed = len.div_ceil(2);
            match packed != len {
                true if stored == packed => Some(shape.rank() - 1),
                true if stored == len => Some(0),
                _ => None,
            }
        };
        let by_version = || {
            let minor = version?.strip_prefix("3.")?.split('.').next()?.parse::<u64>().ok()?;
            match minor {
                FIRST_PACKED_ALONG_LAST.. => Some(shape.rank() - 1),
                FIRST_PACKED.. => Some(0),
                _ => None,
            }
        };
        by_shape().or_else(by_version)
    }
}

/// Whether a mode is this one, with or without the length of its blocks.
fn is_mode(mode: &str, name: &str) -> bool {
    mode.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(mode: &str, units: u64) -> Quantized {
        let policy = serde_json::json!({ "class_name": "QuantizedDTypePolicy", "config": { "mode": mode } });
        let layer = serde_json::json!({ "class_name": "Dense", "config": { "name": "d", "units": units, "dtype": policy } });
        Quantized::of(&Layer::parse(&layer).unwrap()).unwrap()
    }

    #[test]
    fn shape_and_units_tell_along_which_axis_a_kernel_is_packed() {
        let axis = |shape: [u64; 2], units, version| {
            dense("int4", units).packed_axis(&Shape::new(shape).unwrap(), version)
        };
        assert_eq!(axis([8, 3], 6, None), Some(1));
        assert_eq!(axis([8, 4], 7, Some("3.11.0")), Some(1));
        assert_eq!(axis([4, 6], 6, Some("3.15.1")), Some(0));
        // One output: only the version tells.
        assert_eq!(axis([4, 1], 1, Some("3.13.2")), Some(0));
        assert_eq!(axis([4, 1], 1, Some("3.14.0")), Some(1));
        assert_eq!(axis([4, 1], 1, None), None);
        assert_eq!(dense("int8", 6).packed_axis(&Shape::new([8u64, 6]).unwrap(), Some("3.15.1")), None);
    }

    #[test]
    fn integers_are_divided_by_their_scale_unless_groups_have_zero_points() {
        for (mode, formula) in [
            ("int8", "q / scale"),
            ("int4", "q / scale"),
            ("int4/-1", "q / scale"),
            ("int4/128", "(q - zero) * scale"),
        ] {
            assert_eq!(dense(mode, 6).formula(), formula, "{mode}");
        }
    }
}
