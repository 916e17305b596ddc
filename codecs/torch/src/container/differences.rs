//! How a zip archive differs from the one that is written for the same records: that of PyTorch 2.8.
//!
//! Nothing but the directory is looked at: names, places, lengths and checksums determine every other byte that PyTorch
//! writes.

use super::identity;
use ckpt_api::{ChecksumAlgorithm, first_few};
use ckpt_containers::zip::record::{CENTRAL_BYTES, END_BYTES, END64_BYTES, LOCAL_BYTES, LOCATOR64_BYTES};
use ckpt_containers::zip::{Entry, Member, PYTORCH_ALIGNMENT as ALIGNMENT};

/// Bytes of the padding's own header, and of all that follows the directory.
const PADDING: u64 = 4;
const END: u64 = END64_BYTES + LOCATOR64_BYTES + END_BYTES;
/// Bytes of a descriptor with sizes of 32 and of 64 bits.
const DESCRIPTORS: [u64; 2] = [16, 24];
/// Names that a text lists.
const SHOWN: usize = 5;

/// Records before the storages and after them, with their contents.
const BEFORE: [(&str, &[u8]); 4] =
    [("data.pkl", b""), (".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")];
const VERSION: (&str, &[u8]) = ("version", b"3\n");
const ID: &str = ".data/serialization_id";

/// The records of an archive, without their folder.
pub(super) struct Records<'a> {
    /// In the order of the directory.
    pub(super) all: Vec<(&'a str, &'a Entry, &'a Member)>,
    /// Length of the folder's name, and the slash.
    pub(super) prefix: u64,
    /// Names of members outside of the folder.
    pub(super) outside: Vec<&'a str>,
    /// Offset of the directory, and the length of the archive.
    pub(super) directory: u64,
    pub(super) len: u64,
}

impl Records<'_> {
    /// What is different, a clause each; nothing if PyTorch 2.8 or later wrote the archive.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.version());
        found.extend(self.others());
        if self.all.iter().any(|(_, _, member)| member.compression.is_some()) {
            found.push("its records are compressed, and are written uncompressed".to_owned());
        }
        if self.all.iter().any(|(_, entry, member)| entry.crc == 0 && member.len > 0) {
            found.push("it has no checksums, and they are written".to_owned());
        }
        let crc = |(name, bytes): (&str, &[u8])| {
            let own = self.find(name).filter(|own| own.crc != 0)?;
            Some(own.crc == ChecksumAlgorithm::Crc32.append(0, bytes))
        };
        if crc(("byteorder", b"big")) == Some(true) {
            found.push("its numbers are big-endian, and are written little-endian".to_owned());
        } else if [BEFORE[1], BEFORE[3], VERSION].iter().any(|record| crc(*record) == Some(false)) {
            found.push("it states another version of the format than PyTorch 2.8 does".to_owned());
        }
        if !found.is_empty() {
            return found;
        }
        if !self.is_in_order() {
            found.push("its records lie in another order than PyTorch 2.8 writes them".to_owned());
        } else if !self.is_aligned() || crc(BEFORE[2]) == Some(false) {
            found.push(
                "its records do not begin where PyTorch 2.8 aligns them, at multiples of 64 bytes".to_owned(),
            );
        } else if !self.ends_as_expected() || !self.is_identified() {
            found.push("another program than PyTorch wrote the records, with headers of its own".to_owned());
        }
        found
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.all.iter().find(|(own, ..)| *own == name).map(|(_, entry, _)| *entry)
    }

    /// The version of PyTorch, by the records that it writes, if it is an earlier one.
    fn version(&self) -> Option<String> {
        let has = |name: &str| self.find(name).is_some();
        let is_first = self.all.first().is_some_and(|(name, ..)| *name == VERSION.0);
        let versions = match (has(".format_version"), has("byteorder"), has(ID)) {
            (true, true, true) if has(".storage_alignment") => return None,
            (false, true, true) => "2.1 to 2.6",
            (false, false, false) if self.all.iter().any(|(name, ..)| name.starts_with("tensors/")) => "1.4",
            (false, false, false) if is_first => "1.5",
            (false, false, false) => "1.6 to 2.0",
            _ => {
                return Some(
                    "it has other records than PyTorch writes, and is written with those".to_owned(),
                );
            }
        };
        Some(format!("it has the records of PyTorch {versions}, and is written as PyTorch 2.8 writes it"))
    }

    /// Records that PyTorch does not write for a state dict.
    fn others(&self) -> Option<String> {
        let is_known = |name: &str| {
            let is_storage = ["data/", "tensors/"].iter().any(|folder| name.starts_with(folder));
            let fixed = BEFORE.iter().chain([&VERSION]).map(|(name, _)| *name);
            is_storage || fixed.chain([ID, ".data/version"]).any(|own| own == name)
        };
        let own = self.all.iter().map(|(name, ..)| *name).filter(|name| !is_known(name));
        let others: Vec<&str> = own.chain(self.outside.iter().copied()).collect();
        let shown: Vec<String> = others.iter().map(|name| name.escape_debug().to_string()).collect();
        (!others.is_empty())
            .then(|| format!("records beside the tensors are left out: {}", first_few(&shown, SHOWN)))
    }

    /// Whether the fixed records are where PyTorch writes them, and the storages in the order of their numbers.
    fn is_in_order(&self) -> bool {
        let names: Vec<&str> = self.all.iter().map(|(name, ..)| *name).collect();
        let (before, rest) = names.split_at_checked(BEFORE.len()).unwrap_or_default();
        let Some((storages, after)) = rest.split_last_chunk::<2>() else { return false };
        let numbers = storages.iter().map(|name| name.strip_prefix("data/").map(order));
        let numbers = numbers.collect::<Option<Vec<_>>>();
        before.iter().eq(BEFORE.iter().map(|(name, _)| name))
            && after == &[VERSION.0, ID]
            && numbers.is_some_and(|numbers| numbers.is_sorted())
            && self.all.is_sorted_by_key(|(_, _, member)| member.start)
    }

    /// Whether each record begins at the first multiple of 64 behind its header.
    fn is_aligned(&self) -> bool {
        let mut at = 0u64;
        self.all.iter().all(|(name, _, member)| {
            let large = [member.len, at].map(|number| number >= u32::MAX.into());
            let extra = match large {
                [false, false] => 0,
                [true, false] => 20,
                [false, true] => 12,
                [true, true] => 28,
            };
            let head = LOCAL_BYTES + self.prefix + name.len() as u64 + extra + PADDING;
            let start = at.saturating_add(head).checked_next_multiple_of(ALIGNMENT);
            let [short, long] = DESCRIPTORS;
            let descriptor = match large {
                _ if member.len == 0 => 0,
                [false, false] => short,
                _ => long,
            };
            at = member.start.saturating_add(member.len).saturating_add(descriptor);
            start == Some(member.start)
        }) && at == self.directory
    }

    /// Whether the archive has the length that it has with a directory of PyTorch.
    fn ends_as_expected(&self) -> bool {
        let mut at = 0u64;
        let entries = self.all.iter().map(|(name, _, member)| {
            let large = |number: u64| number >= u32::MAX.into();
            // Local headers are behind the record before.
            let numbers = if large(member.len) { 2 } else { 0 } + u64::from(large(at));
            at = member.start.saturating_add(member.len).saturating_add(DESCRIPTORS[0]);
            CENTRAL_BYTES + self.prefix + name.len() as u64 + if numbers > 0 { 4 + 8 * numbers } else { 0 }
        });
        let directory = entries.sum::<u64>();
        self.directory.checked_add(directory).and_then(|end| end.checked_add(END)) == Some(self.len)
    }

    /// Whether the archive has the id that PyTorch makes of names and checksums.
    fn is_identified(&self) -> bool {
        let others = || self.all.iter().filter(|(name, ..)| *name != ID);
        let names = identity::of_names(others().map(|(name, ..)| *name));
        let filled = others().filter(|(_, _, member)| member.len > 0);
        let checksums = identity::of_checksums(filled.map(|(_, entry, _)| entry.crc));
        let text = identity::text(names, checksums);
        self.find(ID).is_some_and(|id| id.crc == ChecksumAlgorithm::Crc32.append(0, text.as_bytes()))
    }
}

/// Keys of storages are ordered as numbers.
fn order(key: &str) -> (u64, &str) {
    (key.parse().unwrap_or(u64::MAX), key)
}
