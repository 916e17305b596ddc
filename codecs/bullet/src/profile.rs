//! The built-in engine profiles: `data/profiles`.

use crate::net::engine::Engine;
use ckpt_api::{Error, Result, nearest};

/// The profiles by name.
const PROFILES: [(&str, &str); 3] = [
    ("plain", include_str!("../data/profiles/plain.toml")),
    ("multi-avx2", include_str!("../data/profiles/multi-avx2.toml")),
    ("multi-avx512", include_str!("../data/profiles/multi-avx512.toml")),
];

/// Returns the profile with this name.
pub(crate) fn profile(name: &str) -> Result<Engine> {
    let (_, text) = PROFILES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        Error::usage("unknown engine profile")
            .field("profile")
            .found(format!("'{name}'"))
            .help(nearest(name, PROFILES.iter().map(|(name, _)| *name)))
    })?;
    toml::from_str(text)
        .map_err(|error| Error::defect("a built-in engine profile is invalid").field(name).caused_by(error))
}
