//! Sets of input features, and the arrays that a feature transformer stores for them.

use ckpt_api::DType;
use std::sync::LazyLock;

/// Buckets of piece-square values, and stacks of layers, of which one is chosen by the number of pieces.
pub(super) const PSQT_BUCKETS: u64 = 8;

/// A set of input features.
#[derive(Debug)]
struct FeatureSet {
    name: &'static str,
    hash: u32,
    features: u64,
    weight: DType,
    has_psqt: bool,
}

const fn set(name: &'static str, hash: u32, features: u64, weight: DType) -> FeatureSet {
    FeatureSet { name, hash, features, weight, has_psqt: true }
}

const HALF_KA_HM: FeatureSet = set("HalfKAv2_hm", 0x7F23_4CB8, 22_528, DType::I16);
const THREATS: &str = "Full_Threats";
/// The hash of the threats of 2025 and of the first half of 2026, of which four numbers of features exist.
const OLD_THREATS_HASH: u32 = 0x8F23_4CB8;
const OLD_THREATS: [u64; 4] = [79_856, 66_864, 60_144, 60_720];

/// Every set, in the order in which Stockfish and its trainer store several.
static SETS: [FeatureSet; 6] = [
    set(THREATS, 0x2E6B_9D04, 59_808, DType::I8),
    set(THREATS, OLD_THREATS_HASH, OLD_THREATS[3], DType::I8),
    set("PP_3Wide", 0x86F2_B1DD, 4_560, DType::I8),
    HALF_KA_HM,
    set("HalfKAv2", 0x5F23_4CB8, 45_056, DType::I16),
    FeatureSet { name: "HalfKP", hash: 0x5D69_D5B8, features: 41_024, weight: DType::I16, has_psqt: false },
];
/// The name of a set that is not known.
const OTHER: &str = "other";
/// The most sets that one network combines.
const MOST_SETS: usize = 3;

/// How many columns an array of the transformer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// One for each neuron.
    Neurons,
    /// One for each bucket of piece-square values.
    Buckets,
}

impl Columns {
    pub(crate) fn count(self, l1: u64) -> u64 {
        match self {
            Columns::Neurons => l1,
            Columns::Buckets => PSQT_BUCKETS,
        }
    }
}

/// An array of the transformer, a row for each feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    /// The name of the tensor.
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) columns: Columns,
    pub(crate) dtype: DType,
}

impl Array {
    fn weight(sets: &str, rows: u64, dtype: DType) -> Self {
        Array { name: format!("transformer.{sets}.weight"), rows, columns: Columns::Neurons, dtype }
    }

    fn psqt(sets: &str, rows: u64) -> Self {
        let name = format!("transformer.{sets}.psqt");
        Array { name, rows, columns: Columns::Buckets, dtype: DType::I32 }
    }
}

/// The inputs of a network: its feature sets, and how their arrays are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// The sets with their numbers of features.
    pub(crate) text: String,
    pub(crate) hash: u32,
    /// In the order of the file, after the biases.
    pub(crate) arrays: Vec<Array>,
    pub(crate) features: u64,
    /// Whether there is one stack of layers, and not one for each bucket: so were networks before piece-square values.
    pub(crate) has_one_stack: bool,
}

impl Inputs {
    /// Every combination of sets, those of Stockfish first.
    pub(crate) fn all() -> &'static [Inputs] {
        static ALL: LazyLock<Vec<Inputs>> = LazyLock::new(Inputs::combined);
        &ALL
    }

    fn combined() -> Vec<Inputs> {
        let mut lists: Vec<Vec<&'static FeatureSet>> = SETS.iter().map(|set| vec![set]).collect();
        let mut from = 0;
        for _ in 1..MOST_SETS {
            let longer: Vec<_> = lists.iter().skip(from).flat_map(|list| longer(list)).collect();
            from = lists.len();
            lists.extend(longer);
        }
        let together = OLD_THREATS.into_iter().flat_map(of_2025);
        lists.iter().map(|list| Inputs::of(list)).chain(together).collect()
    }

    /// Inputs of a set that is not known: weights of 16 bits, and piece-square values.
    pub(crate) fn other(features: u64, hash: u32) -> Inputs {
        let arrays = vec![Array::weight(OTHER, features, DType::I16), Array::psqt(OTHER, features)];
        Inputs { text: sized(OTHER, features), hash, arrays, features, has_one_stack: false }
    }

    /// The features of such inputs, by what [`Inputs::text`] is.
    pub(crate) fn other_features(text: &str) -> Option<u64> {
        text.strip_prefix(OTHER)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
    }

    /// Sets that are stored one after the other.
    fn of(sets: &[&FeatureSet]) -> Inputs {
        let arrays = sets.iter().flat_map(|set| {
            let psqt = set.has_psqt.then(|| Array::psqt(set.name, set.features));
            [Some(Array::weight(set.name, set.features, set.weight)), psqt].into_iter().flatten()
        });
        Inputs {
            text: sets.iter().map(|set| sized(set.name, set.features)).collect::<Vec<_>>().join("+"),
            hash: sets.iter().fold(0, |hash, set| hash.rotate_left(1) ^ set.hash),
            arrays: arrays.collect(),
            features: sets.iter().map(|set| set.features).sum(),
            has_one_stack: sets.iter().all(|set| !set.has_psqt),
        }
    }
}

fn sized(name: &str, features: u64) -> String {
    format!("{name}[{features}]")
}

/// The list with each set of another name added.
fn longer(list: &[&'static FeatureSet]) -> Vec<Vec<&'static FeatureSet>> {
    let is_new = |set: &&FeatureSet| list.iter().all(|other| other.name != set.name);
    SETS.iter().filter(is_new).map(|set| list.iter().copied().chain([set]).collect()).collect()
}

/// Threats beside HalfKAv2_hm as Stockfish stored them from November 2025 to May 2026: both have one array of piece-square
/// values, and until December 2025 one of weights. The hash was that of the threats alone until February 2026.
fn of_2025(threats: u64) -> Vec<Inputs> {
    let both = format!("{THREATS}+{}", HALF_KA_HM.name);
    let features = threats + HALF_KA_HM.features;
    let apart = vec![
        Array::weight(THREATS, threats, DType::I8),
        Array::weight(HALF_KA_HM.name, HALF_KA_HM.features, DType::I16),
        Array::psqt(&both, features),
    ];
    let joined = vec![Array::weight(&both, features, DType::I16), Array::psqt(&both, features)];
    let hashes = [OLD_THREATS_HASH, OLD_THREATS_HASH.rotate_left(1) ^ HALF_KA_HM.hash];
    let text = format!("{}+{}", sized(THREATS, threats), sized(HALF_KA_HM.name, HALF_KA_HM.features));
    let inputs = |hash, arrays| Inputs { text: text.clone(), hash, arrays, features, has_one_stack: false };
    hashes.into_iter().flat_map(|hash| [inputs(hash, apart.clone()), inputs(hash, joined.clone())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_combined_in_every_order_and_the_hash_depends_on_it() {
        let all = Inputs::all();
        assert_eq!(all.len(), 6 + (30 - 2) + (4 * 3 * 2 + 2 * 3 * (4 * 3)) + 16);
        let find = |text: &str| all.iter().find(|inputs| inputs.text == text).unwrap();
        let current = find("Full_Threats[59808]+PP_3Wide[4560]+HalfKAv2_hm[22528]");
        // What the network in Stockfish 19 states: 0xcb685313 ^ (2 · 1024).
        assert_eq!(current.hash, 0xCB68_5313 ^ 2048);
        assert_eq!(find("HalfKAv2_hm[22528]").hash, 0x7F23_4CB8);
        assert_ne!(current.hash, find("PP_3Wide[4560]+Full_Threats[59808]+HalfKAv2_hm[22528]").hash);
        assert!(find("HalfKP[41024]").has_one_stack && !current.has_one_stack);
    }
}
