//! The key of a conversion: a killed one is resumed only where everything that determines the output is the same.

use super::Plan;
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;

impl Plan {
    /// SHA-256 over this program, the source's files as they are now, and everything that was asked for. `None` if a file of
    /// the source has no identity. Cheaper than [`Plan::sha256`], which covers what follows from these.
    pub(crate) fn key(&self) -> Option<[u8; 32]> {
        if self.source.files.iter().any(|file| file.identity.is_none()) {
            return None;
        }
        let described = serde_json::json!({
            "ckpt": env!("CARGO_PKG_VERSION"),
            "program": program(),
            "source": self.source,
            "target": self.target,
            "settings": self.settings,
            "items": self.items.len(),
            "bytes": [self.bytes_read, self.bytes_written],
        });
        Some(Sha256::digest(described.to_string()).into())
    }
}

/// The file of this program: another build may place tensors elsewhere.
fn program() -> Option<(u64, u128)> {
    let meta = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((meta.len(), modified.as_nanos()))
}
