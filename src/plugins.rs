//! Plugins: codecs that are added to a registry at run time.

use ckpt_api::{Codec, Error, Limits, Result};
use ckpt_engine::Registry;
use ckpt_plugin_host::Plugin;
use std::path::Path;

/// Adds the codec of a plugin, which errors call `shown`. It writes and decodes within the limits.
///
/// # Errors
/// Those of [`Plugin::load_within`]; [`ckpt_api::Kind::Usage`] if its id, or an ending of its file names, is that of a known format.
pub(crate) fn add(registry: &mut Registry, bytes: &[u8], shown: &str, limits: &Limits) -> Result<()> {
    let plugin = Plugin::load_within(bytes, shown, limits)?;
    check_claims(registry, &plugin).map_err(|error| error.file(shown))?;
    registry.add(plugin).map_err(|error| error.file(shown))
}

/// The bytes of a plugin's file.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if it cannot be read.
pub(crate) fn bytes_of(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file)
        .map_err(|error| Error::io("cannot read the plugin", error).file(file.display().to_string()))
}

/// Refuses what would make a known format ambiguous.
fn check_claims(registry: &Registry, plugin: &Plugin) -> Result<()> {
    let own = plugin.info();
    for codec in registry.codecs() {
        let known = codec.info();
        let owner = match codec.provenance() {
            Some(provenance) => format!("format '{}' of the {provenance}", known.id),
            None => format!("format '{}' of the program", known.id),
        };
        let taken = |what: &str| Error::usage(what.to_owned()).expected(format!("none of {owner}"));
        if known.id == own.id {
            return Err(taken("the plugin has the id of another format").found(format!("'{}'", own.id)));
        }
        let is_builtin = codec.provenance().is_none();
        let shared = own.extensions.iter().find(|ending| is_builtin && known.extensions.contains(ending));
        if let Some(ending) = shared {
            return Err(
                taken("the plugin has a file name ending of another format").found(format!(".{ending}"))
            );
        }
    }
    Ok(())
}
