//! Limits on metadata: entries, bytes, nesting.

use super::{Metadata, MetadataValue};
use crate::{Error, Limit, Limits, Result};

impl MetadataValue {
    /// Returns the value if it nests at most [`MetadataValue::MAX_NESTING`] deep.
    ///
    /// # Errors
    /// [`crate::Kind::Limit`].
    pub fn checked(self) -> Result<Self> {
        let unlimited =
            Limits::default().with(Limit::MetadataEntries, u64::MAX).with(Limit::MetadataBytes, u64::MAX);
        Size::default().add(&self, &unlimited).map(|()| self)
    }
}

/// What metadata takes so far.
#[derive(Default)]
pub(crate) struct Size {
    /// Values by a key, and elements of lists.
    entries: u64,
    /// Bytes of keys, texts and bytes.
    bytes: u64,
}

impl Size {
    /// Adds all values.
    ///
    /// # Errors
    /// [`crate::Kind::Limit`], naming the key.
    pub(crate) fn add_all(&mut self, metadata: &Metadata, limits: &Limits) -> Result<()> {
        for (namespace, map) in metadata.iter() {
            for (key, value) in map.iter() {
                self.bytes = self.bytes.saturating_add(key.len() as u64);
                self.add(value, limits).map_err(|error| error.field(format!("{namespace}.{key}")))?;
            }
        }
        Ok(())
    }

    /// Adds one value. Takes no stack for its levels.
    fn add(&mut self, value: &MetadataValue, limits: &Limits) -> Result<()> {
        let mut left = vec![(value, 0)];
        while let Some((value, level)) = left.pop() {
            let own = match value {
                MetadataValue::Text(text) => text.len(),
                MetadataValue::Bytes(bytes) => bytes.len(),
                MetadataValue::Map(map) => map.iter().map(|(key, _)| key.len()).sum(),
                _ => 0,
            };
            self.entries = self.entries.saturating_add(1);
            self.bytes = self.bytes.saturating_add(own as u64);
            limits.check(Limit::MetadataEntries, self.entries)?;
            limits.check(Limit::MetadataBytes, self.bytes)?;
            if let MetadataValue::List(_) | MetadataValue::Map(_) = value
                && level == MetadataValue::MAX_NESTING
            {
                return Err(Error::limit("the metadata is nested too deeply")
                    .expected(format!("at most {level} levels")));
            }
            match value {
                MetadataValue::List(values) => left.extend(values.iter().map(|value| (value, level + 1))),
                MetadataValue::Map(map) => left.extend(map.iter().map(|(_, value)| (value, level + 1))),
                _ => {}
            }
        }
        Ok(())
    }
}
