//! The version, mip level and padding to write.

use crate::format::{self, ID, KEY_MIP, KEY_PAD, KEY_VERSION, Pad, Version};
use ckpt_api::{Checkpoint, Loss, LossKind, MetadataMap, Options};

/// What a file stores apart from its layers.
pub(super) struct Settings {
    pub(super) version: Version,
    pub(super) mip: u32,
    pub(super) pad: Pad,
}

impl Settings {
    /// Returns what the options state, or else the source's metadata, or else the default.
    pub(super) fn new(checkpoint: &Checkpoint, options: &Options, losses: &mut Vec<Loss>) -> Self {
        let source = SourceSettings::new(checkpoint, losses);
        let number = |name: &str| options.text(name).and_then(|text| text.parse().ok());
        let mip = number("mip").or(source.mip).unwrap_or(0);
        let default = if mip > 0 { Version::Two } else { source.version.unwrap_or(Version::One) };
        let version = number("version").and_then(Version::from_number).unwrap_or(default);
        if version == Version::One && mip > 0 {
            let detail = format!("version 1 cannot store mip level {mip}; its readers use level 0");
            losses.push(Loss::new(LossKind::MetadataDropped, "cnn2.mip", detail));
        }
        let pad = options.text("pad").and_then(Pad::from_name).or(source.pad).unwrap_or(Pad::Zero);
        Settings { version, mip, pad }
    }
}

/// The settings that reading a CNN2 file leaves in the metadata.
#[derive(Default)]
struct SourceSettings {
    version: Option<Version>,
    mip: Option<u32>,
    pad: Option<Pad>,
}

impl SourceSettings {
    /// Parses the metadata, and reports what is none of these settings.
    fn new(checkpoint: &Checkpoint, losses: &mut Vec<Loss>) -> Self {
        let mut settings = SourceSettings::default();
        for (key, value) in checkpoint.metadata.namespace(ID).into_iter().flat_map(MetadataMap::iter) {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let is_known = match key {
                KEY_VERSION => {
                    settings.version = number.and_then(Version::from_number);
                    settings.version.is_some()
                }
                KEY_MIP => {
                    settings.mip = number.and_then(format::mip);
                    settings.mip.is_some()
                }
                KEY_PAD => {
                    settings.pad = value.as_text().and_then(Pad::from_name);
                    settings.pad.is_some()
                }
                _ => false,
            };
            if !is_known {
                let detail = "a CNN2 file cannot store it";
                losses.push(Loss::new(LossKind::MetadataDropped, format!("{ID}.{key}"), detail));
            }
        }
        settings
    }
}
