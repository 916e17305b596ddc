//! What reading and writing share: the `.cfg`, the header of the weights, and the tensors of each layer.

mod cfg;
mod convert;
mod detection;
mod header;
mod image;
mod layer;

pub(crate) use cfg::Section;
pub(crate) use detection::{BOX, Detection};
pub(crate) use header::Header;
pub(crate) use image::Image;
pub(crate) use layer::{Activation, Kind, Layer, Network, Part, Window};

use ckpt_api::{Error, Input, Limit, Limits, Result};

/// The format's id, and its namespace in metadata.
pub(crate) const ID: &str = "darknet";

/// The option that names the `.cfg`, and the key of its text.
pub(crate) const CFG: &str = "cfg";
/// The option that states how many layers the weights are of, and the key of that number.
pub(crate) const LAYERS: &str = "layers";
/// The option that states what detection layers return.
pub(crate) const DETECTIONS: &str = "detections";
/// Keys of the numbers of the header.
pub(crate) const KEY_VERSION: &str = "version";
pub(crate) const KEY_SEEN: &str = "seen";

/// Bytes of a weight.
pub(crate) const WEIGHT_BYTES: u64 = 4;

/// Returns the name of the `.cfg` of a file of weights, and how many layers that name says it has: `yolov4.cfg` and 137 for
/// `yolov4.conv.137`.
pub(crate) fn cfg_of(weights: &str) -> (String, Option<u64>) {
    let (stem, ending) = weights.rsplit_once('.').unwrap_or((weights, ""));
    let layers = ending.parse().ok().filter(|_| ending.bytes().all(|byte| byte.is_ascii_digit()));
    match stem.strip_suffix(".conv").zip(layers) {
        Some((stem, layers)) => (format!("{stem}.cfg"), Some(layers)),
        None => (format!("{stem}.cfg"), None),
    }
}

/// Opens a `.cfg` by its path, and returns its text.
pub(crate) fn cfg_at(path: &str, limits: &Limits) -> Result<(String, String)> {
    let file = Input::open(path)?.main()?;
    Ok((text_of(&file, limits)?, file.name().to_owned()))
}

/// Returns the text of a `.cfg`.
pub(crate) fn text_of(file: &ckpt_api::File, limits: &Limits) -> Result<String> {
    let named = |error: Error| error.file(file.name());
    limits.check(Limit::TextBytes, file.len()).map_err(named)?;
    String::from_utf8(file.bytes(0, file.len())?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        named(Error::corrupt("the .cfg is not valid UTF-8").offset(at as u64))
    })
}

/// The name of a tensor.
pub(crate) fn tensor_name(index: usize, section: &str, part: &str) -> String {
    format!("{index:03}.{section}.{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cfg_has_the_stem_of_the_weights() {
        assert_eq!(cfg_of("yolov3-tiny.weights"), ("yolov3-tiny.cfg".to_owned(), None));
        assert_eq!(cfg_of("yolov4.conv.137"), ("yolov4.cfg".to_owned(), Some(137)));
        assert_eq!(cfg_of("a.b.weights"), ("a.b.cfg".to_owned(), None));
    }
}
