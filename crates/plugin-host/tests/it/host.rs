//! What the tests of the host alone do with a module.

use super::module::Wat;
use ckpt_plugin_host::Plugin;

impl Wat {
    pub fn importing(mut self, import: &str) -> Self {
        self.imports.push_str(import);
        self
    }

    pub fn load(&self) -> ckpt_api::Result<Plugin> {
        Plugin::load(&self.bytes(), "toys/toy.wasm")
    }
}
