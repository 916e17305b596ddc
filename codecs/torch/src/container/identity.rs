//! The id that PyTorch's zip writer derives from names and checksums of the records.
//!
//! Nobody checks the id. With it, a file is what PyTorch would have written, byte for byte.

/// Sums up the names of the records, in the order in which C++'s `std::unordered_set` of libstdc++ lists them.
pub(crate) fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    let hashes = names.map(|name| hash(name.as_bytes())).collect::<Vec<u64>>();
    listed(&hashes).into_iter().fold(0, mix)
}

/// Sums up the checksums of the records that are not empty, in the order of the file.
pub(crate) fn of_checksums(checksums: impl Iterator<Item = u32>) -> u64 {
    checksums.fold(0, |sum, checksum| mix(sum, checksum.into()))
}

/// Returns the text that the file stores.
pub(crate) fn text(names: u64, checksums: u64) -> String {
    format!("{names:020}{checksums:020}")
}

/// Bytes of [`text`].
pub(crate) const TEXT_BYTES: u64 = 40;

/// `c10::hash_combine`.
fn mix(sum: u64, value: u64) -> u64 {
    let added = value.wrapping_add(0x9e37_79b9).wrapping_add(sum << 6).wrapping_add(sum >> 2);
    sum ^ added
}

/// `std::hash` of libstdc++: MurmurHash64A with its seed.
fn hash(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xc70f_6907;
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let shift = |value: u64| value ^ (value >> 47);
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let data = shift(u64::from_le_bytes(*word).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
        hash = (hash ^ data).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let data = rest.iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        hash = (hash ^ data).wrapping_mul(FACTOR);
    }
    shift(shift(hash).wrapping_mul(FACTOR))
}

/// The numbers of buckets that a set of libstdc++ grows to.
const BUCKETS: [u64; 19] = [
    13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172_933, 351_061, 712_697,
    1_447_153, 2_938_679, 5_967_347,
];

/// Lists hashes in the order of a set into which they are inserted one by one.
///
/// The set is one linked list, in which the elements of a bucket are neighbors. An element is inserted at the front of
/// its bucket, or at the front of the list if the bucket is empty.
fn listed(hashes: &[u64]) -> Vec<u64> {
    let mut list = List::default();
    let mut sizes = BUCKETS.into_iter();
    for (id, _) in hashes.iter().enumerate() {
        if id as u64 >= list.buckets.len() as u64
            && let Some(buckets) = sizes.next()
        {
            list.grow(hashes, buckets);
        }
        list.insert(hashes, id);
    }
    list.ids().filter_map(|id| hashes.get(id).copied()).collect()
}

/// Place of the node before the first in [`List::next`].
const HEAD: usize = 0;

/// A singly linked list with buckets. Element `id` is node `id + 1`.
#[derive(Default)]
struct List {
    /// The node after each; the list ends at `None`.
    next: Vec<Option<usize>>,
    /// For each bucket that is not empty, the node before its first.
    buckets: Vec<Option<usize>>,
}

impl List {
    fn grow(&mut self, hashes: &[u64], buckets: u64) {
        let order: Vec<usize> = self.ids().collect();
        self.buckets = vec![None; buckets as usize];
        self.next = vec![None; hashes.len().saturating_add(1)];
        order.into_iter().for_each(|id| self.insert(hashes, id));
    }

    fn insert(&mut self, hashes: &[u64], id: usize) {
        let node = id + 1;
        let bucket = self.bucket(hashes, node);
        let before = self.buckets.get(bucket).copied().flatten();
        let after = self.after(before.unwrap_or(HEAD));
        self.link(node, after);
        self.link(before.unwrap_or(HEAD), Some(node));
        if before.is_none() {
            self.begin(bucket, HEAD);
            if let Some(after) = after {
                self.begin(self.bucket(hashes, after), node);
            }
        }
    }

    fn ids(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.after(HEAD), |node| self.after(*node))
            .filter_map(|node| node.checked_sub(1))
    }

    fn bucket(&self, hashes: &[u64], node: usize) -> usize {
        let hash = node.checked_sub(1).and_then(|id| hashes.get(id)).copied().unwrap_or(0);
        (hash % (self.buckets.len() as u64).max(1)) as usize
    }

    fn after(&self, node: usize) -> Option<usize> {
        self.next.get(node).copied().flatten()
    }

    fn link(&mut self, node: usize, to: Option<usize>) {
        if let Some(next) = self.next.get_mut(node) {
            *next = to;
        }
    }

    fn begin(&mut self, bucket: usize, before: usize) {
        if let Some(begin) = self.buckets.get_mut(bucket) {
            *begin = Some(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_hashes_of_libstdcpp() {
        for (text, expected) in HASHES {
            assert_eq!(hash(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn a_set_lists_its_elements_as_that_of_libstdcpp() {
        // Miri is a thousand times as slow.
        let most = if cfg!(miri) { 200 } else { usize::MAX };
        for (count, expected) in ORDERS.iter().filter(|(count, _)| *count <= most) {
            let names: Vec<String> = (0..*count).map(|number| format!("data/{number}")).collect();
            assert_eq!(of_names(names.iter().map(String::as_str)), *expected, "{count}");
        }
    }

    /// Printed by `std::hash<std::string>`.
    const HASHES: &[(&str, u64)] = &[
        ("", 0x553e_9390_1e46_2a6e),
        ("a", 0x454d_dee4_88c1_ed6b),
        ("data.pkl", 0x4494_3d56_5847_b09e),
        ("byteorder", 0xf286_5a2c_c923_0444),
        (".format_version", 0xf394_ed16_e57c_685c),
        (".storage_alignment", 0x5abe_78be_0187_373d),
    ];

    /// What `hash_combine` over an `std::unordered_set` of `data/0`, `data/1`, … gave, by number of elements.
    const ORDERS: &[(usize, u64)] = &[
        (0, 0),
        (1, 0x069d_3708_8f17_5a44),
        (5, 0xe7e9_7100_44a4_2f97),
        (13, 0x26b4_651a_6202_623c),
        (14, 0x6120_f936_efc5_81db),
        (30, 0x3587_95d0_08b2_0c24),
        (60, 0x0e52_f421_65af_deec),
        (200, 0x5b3d_48ea_b2ff_1d03),
        (2001, 0xc8c0_fa95_9a05_8c75),
        (20_000, 0x62bc_7151_91d4_a2db),
        (100_000, 0xc25a_7136_c6e7_9507),
    ];
}
