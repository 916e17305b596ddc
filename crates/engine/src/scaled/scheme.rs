//! The schemes by which several tensors describe one: `data/scaled.toml`.

use ckpt_api::{DType, Shape};

/// One way to store elements and their scales.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheme {
    /// What people call it.
    pub(super) title: String,
    /// How the name of the elements ends.
    pub(super) elements: String,
    /// The dtypes that elements may have; any, if there is none.
    pub(super) dtypes: Vec<DType>,
    /// How the names of the tensors end that must be there; the first one holds the scales.
    pub(super) scales: Vec<String>,
    /// How the names of the tensors end that belong to the elements, too.
    #[serde(default)]
    pub(super) more: Vec<String>,
    /// The built-in mapping that multiplies elements and scales.
    #[serde(default)]
    mapping: Option<String>,
    /// Whether the elements are the weights of layers whose dtype is one of floats, so that whoever asks for a dtype of
    /// floats wants the numbers that they stand for.
    #[serde(default)]
    pub(super) stops_float_dtype: bool,
    /// Whether the weights are read as numbers if the configuration states the scheme.
    #[serde(default)]
    pub(super) decodes: bool,
    /// Lengths of the blocks that the mapping takes.
    #[serde(default)]
    block: Vec<u64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Schemes {
    scheme: Vec<Scheme>,
}

/// Returns every scheme, in the order in which they are tried.
pub(super) fn all() -> Vec<Scheme> {
    // A test reads the file, so `unwrap_or_default` hides no error.
    toml::from_str(include_str!("../../data/scaled.toml"))
        .map(|file: Schemes| file.scheme)
        .unwrap_or_default()
}

impl Scheme {
    /// Returns the built-in mapping that multiplies elements and scales of these shapes, if there is one.
    pub(super) fn mapping_for(&self, elements: &Shape, scales: &Shape) -> Option<&str> {
        let has = |blocks: &dyn Fn(u64, u64) -> bool| {
            elements.rank() == scales.rank()
                && elements.iter().zip(scales.iter()).all(|(len, n)| blocks(*len, *n))
        };
        let fits = match self.block[..] {
            // In blocks of its own, which the mapping checks.
            [] if !self.elements.is_empty() => true,
            [] => scales.elements() == 1 || has(&|len, scales| scales == 1 || scales == len),
            _ if self.block.len() != elements.rank() => false,
            _ => {
                let lens = elements.iter().zip(&self.block).map(|(len, block)| len.div_ceil((*block).max(1)));
                scales.iter().copied().eq(lens)
            }
        };
        self.mapping.as_deref().filter(|_| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_scheme_has_scales_and_names_a_mapping_that_is_built_in() {
        let schemes = all();
        assert!(schemes.len() > 10);
        let is_unknown =
            |name: &String| !Path::new("../../data/mappings").join(format!("{name}.toml")).is_file();
        for scheme in schemes {
            assert!(!scheme.scales.is_empty(), "{}", scheme.title);
            let unknown = scheme.mapping.filter(is_unknown);
            assert_eq!(unknown, None, "{}", scheme.title);
        }
    }

    #[test]
    fn a_mapping_is_named_only_if_it_takes_scales_of_this_shape() {
        let shape = |lens: &[u64]| Shape::new(lens.iter().copied()).unwrap();
        let mapping = |title: &str, elements: &[u64], scales: &[u64]| {
            let schemes = all();
            let scheme = schemes.iter().find(|scheme| scheme.title == title).unwrap();
            scheme.mapping_for(&shape(elements), &shape(scales)).map(str::to_owned)
        };
        let blocks = |elements, scales| mapping("FP8 in blocks", elements, scales);
        assert_eq!(blocks(&[130, 4], &[2, 1]).as_deref(), Some("fp8-blocks-to-bf16"));
        assert_eq!(blocks(&[130, 4], &[3, 1]), None);
        let scales = |elements, scales| mapping("FP8 or int8 with scales", elements, scales);
        for fitting in [&[][..], &[1], &[6, 1], &[1, 4]] {
            assert_eq!(scales(&[6, 4], fitting).as_deref(), Some("fp8-scales-to-bf16"), "{fitting:?}");
        }
        assert_eq!(scales(&[6, 4], &[6, 2]), None);
    }
}
