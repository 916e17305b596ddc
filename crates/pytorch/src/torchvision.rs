//! The names of torchvision, for families of models that it has.

use ckpt_api::{Error, Result};

/// The names of the modules of these layers.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if a layer is none of a ResNet.
pub(super) fn names(layers: &[&str]) -> Result<Vec<String>> {
    layers.iter().map(|layer| resnet(layer).ok_or_else(|| unknown(layer))).collect()
}

/// The name in torchvision's ResNet of a layer of Keras's: `layer1.0.conv1` of `conv2_block1_1_conv`.
fn resnet(layer: &str) -> Option<String> {
    let last = layer.rsplit(['/', '.']).next()?;
    match last {
        "conv1_conv" => return Some("conv1".to_owned()),
        "conv1_bn" => return Some("bn1".to_owned()),
        "predictions" => return Some("fc".to_owned()),
        _ => {}
    }
    let [stage, block, number, kind] = last.split('_').collect::<Vec<_>>()[..] else { return None };
    let stage: u64 = stage.strip_prefix("conv")?.parse().ok()?;
    let block: u64 = block.strip_prefix("block")?.parse().ok()?;
    let number: u64 = number.parse().ok()?;
    let (stage, block) = (stage.checked_sub(1)?, block.checked_sub(1)?);
    let own = match (kind, number) {
        ("conv", 0) => "downsample.0".to_owned(),
        ("bn", 0) => "downsample.1".to_owned(),
        ("conv" | "bn", number) => format!("{kind}{number}"),
        _ => return None,
    };
    Some(format!("layer{stage}.{block}.{own}"))
}

fn unknown(layer: &str) -> Error {
    Error::mapping("torchvision has no name for a layer")
        .field(format!("layer {}", ckpt_engine::words::quote(layer)))
        .expected("the layers of ResNet 50, 101 or 152 of keras.applications")
        .help("use the names of the layers, which is the default, or those of nn.Sequential")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_a_resnet_have_the_names_of_torchvision() {
        let layers = ["conv1_conv", "conv2_block1_0_bn", "conv5_block3_2_conv", "predictions"];
        let expected = ["conv1", "layer1.0.downsample.1", "layer4.2.conv2", "fc"];
        assert_eq!(names(&layers).unwrap(), expected);
        assert_eq!(names(&["dense"]).unwrap_err().kind(), ckpt_api::Kind::Mapping);
    }
}
