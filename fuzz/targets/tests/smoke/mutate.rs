//! Deterministic mutations of bytes.

/// Numbers at which parsers err: around the ends of types, of either sign, and sizes that are too large to allocate.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// What inputs may grow to.
const LONGEST: usize = 1 << 17;

/// A sequence of numbers that depends only on its seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The sequence for the mutation with this number of a target's inputs.
    pub fn new(target: &str, number: usize) -> Self {
        let seed = target.bytes().fold(0xcbf2_9ce4_8422_2325, |seed: u64, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ (number as u64) << 32)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.next().checked_rem(end as u64).unwrap_or(0) as usize
    }

    fn number(&mut self) -> u64 {
        NUMBERS[self.below(NUMBERS.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1)
    }
}

/// Returns an input with one to four changes; `other` is what a change may splice in.
pub fn mutated(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.below(4) {
        change(random, &mut bytes, other);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len() + 1);
    let len = 1 + random.below(16);
    let end = (at + len).min(bytes.len());
    match random.below(8) {
        // One bit, of a byte that is there.
        0 | 1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let number = random.number().to_le_bytes();
            let size = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
            bytes[at..at + size].copy_from_slice(&number[..size]);
        }
        6 => {
            let text = random.number().to_string();
            drop(bytes.splice(at..end, text.into_bytes()));
        }
        _ => {
            let first = random.below(other.len() + 1);
            let part = other[first..].iter().take(1 + random.below(64)).copied();
            drop(bytes.splice(at..at, part));
        }
    }
}
