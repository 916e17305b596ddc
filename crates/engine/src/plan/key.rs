//! The key of a conversion: a killed one is resumed only if everything that determines the output is the same.

use super::Plan;
use ckpt_api::open_regular;
use sha2::{Digest, Sha256};

impl Plan {
    /// SHA-256 over this program, the source's files as they are now, and everything that was asked for. `None` if a
    /// file of the source has no identity. Cheaper than [`Plan::sha256`], which covers what follows from these.
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
fn program() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    open_regular(&path, &path.display().to_string()).ok()?.identity()
}
