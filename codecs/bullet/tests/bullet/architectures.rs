//! Random architectures, compared with plain loops over bullet's definition: layers, entries of every type in any
//! order, factorisers in both places, records of every form, optimizers.

use crate::build::{Files, floats, headerless, old_records, one, read_all_with, records, within, write};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A weight as bullet stores it: rows, columns, and how many of the columns are the factoriser's.
#[derive(Clone, Debug)]
pub struct Stored {
    pub id: &'static str,
    pub rows: usize,
    pub columns: usize,
    pub shared: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    id: &'static str,
    kind: &'static str,
    scale: u32,
    round: bool,
    transpose: bool,
    merge: Option<&'static str>,
    round_terms: bool,
}

#[derive(Clone, Debug)]
pub struct Net {
    pub json: Value,
    pub stored: Vec<Stored>,
    /// An id may occur more than once.
    entries: Vec<Entry>,
    /// Bytes before each of the first entries.
    constants: Vec<Vec<u8>>,
    form: usize,
    /// 0: AdamW; 1: RAdam; 2: Ranger.
    optimizer: usize,
    zeros: bool,
}

const WEIGHTS: [&str; 3] = ["l0w", "l1w", "l2w"];
const BIASES: [&str; 3] = ["l0b", "l1b", "l2b"];

/// Layers of these sizes, each pairwise, dual or neither, and the weights that they store.
fn layers(
    [features, inputs, buckets]: [usize; 3],
    factoriser: &Value,
    psqt: bool,
    sizes: &[(usize, usize)],
) -> (Vec<Value>, Vec<Stored>) {
    let shared = if *factoriser == json!("columns") { features } else { 0 };
    let (mut stored, mut layers) = (Vec::new(), Vec::new());
    let mut add = |id, rows, columns, shared| stored.push(Stored { id, rows, columns, shared });
    if psqt {
        add("pst", 1, features * inputs + shared, shared);
    }
    let mut width = 0;
    for (index, (half, kind)) in sizes.iter().enumerate() {
        let (size, of) = (2 * half, if index == 0 { 1 } else { buckets });
        if index == 0 {
            add("l0w", size, features * inputs + shared, shared);
            if *factoriser == json!(true) {
                add("l0f", size, features, 0);
            }
        } else {
            add(WEIGHTS[index], size * of, width, 0);
        }
        add(BIASES[index], size * of, 1, 0);
        layers
            .push(json!({ "size": size, "activation": "crelu", "pairwise": *kind == 1, "dual": *kind == 2 }));
        width = [size, size / 2, size * 2][*kind] * if index == 0 { 2 } else { 1 };
    }
    (layers, stored)
}

pub fn nets() -> impl Strategy<Value = Net> {
    let sizes = prop::collection::vec((1usize..4, 0usize..3), 1..4);
    let factoriser = prop::sample::select(vec![json!(false), json!(true), json!("columns")]);
    let entry = (0usize..4, 1u32..120, any::<[bool; 4]>());
    let order = prop_oneof![
        Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec(0..8usize, 8),
    ];
    let constants = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..4);
    let entries = (order, prop::collection::vec(entry, 8), 1usize..9, constants);
    let rest = (0usize..3, 0usize..3, any::<[bool; 2]>());
    (sizes, [1usize..5, 1..4, 1..4], factoriser, entries, rest).prop_map(
        |(sizes, dims, factoriser, (order, choices, count, constants), (form, optimizer, [psqt, zeros]))| {
            let (layers, stored) = layers(dims, &factoriser, psqt, &sizes);
            let saved = order.into_iter().filter_map(|k| stored.get(k)).zip(choices).take(count);
            let entries: Vec<Entry> = saved
                .map(|(stored, (kind, scale, [round, transpose, merge, terms]))| {
                    let own = (stored.id == "l0w" && factoriser == json!(true)).then_some("l0f");
                    let first =
                        (stored.shared > 0).then_some(if stored.id == "pst" { "pstf" } else { "l0f" });
                    let merge = own.or(first).filter(|_| merge);
                    let kind = ["f32", "i8", "i16", "i32"][kind];
                    let scale = if kind == "i32" { scale * 8191 } else { scale };
                    let transpose = transpose && (stored.shared == 0 || merge.is_some());
                    let round_terms = terms && merge.is_some() && matches!(kind, "i8" | "i16");
                    Entry {
                        id: stored.id,
                        kind,
                        scale,
                        round: round && kind != "f32",
                        transpose,
                        merge,
                        round_terms,
                    }
                })
                .collect();
            let [features, inputs, buckets] = dims;
            let json = json!({
                "format": "bullet", "layers": layers, "psqt": psqt, "output_buckets": { "count": buckets },
                "input": { "features": features, "factoriser": factoriser, "buckets": { "count": inputs } },
                "saved": saved_json(&entries, &constants),
            });
            Net { json, stored, entries, constants, form, optimizer, zeros }
        },
    )
}

/// The entries, and the bytes before the first of them.
fn saved_json(entries: &[Entry], constants: &[Vec<u8>]) -> Vec<Value> {
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut constants = constants.iter().map(|bytes| json!({ "bytes": hex(bytes) }));
    entries.iter().flat_map(|entry| constants.next().into_iter().chain([entry_json(entry)])).collect()
}

fn entry_json(entry: &Entry) -> Value {
    let scale = (entry.kind != "f32").then_some(entry.scale);
    json!({
        "id": entry.id, "type": entry.kind, "scale": scale, "round": entry.round, "transpose": entry.transpose,
        "merge": entry.merge, "round_terms": entry.round_terms,
    })
}

type Values = Vec<(&'static str, u64, Vec<f32>)>;

/// Values in stored order, below 1 and mostly different.
fn values(net: &Net, seed: usize) -> Values {
    let number = |k: usize| ((k * 37 + seed * 11) % 101) as f32 / 103.0 - 0.49;
    let mut next = 0;
    let mut list = |stored: &Stored| {
        let count = stored.rows * stored.columns;
        next += count;
        (stored.id, stored.rows as u64, (next - count..next).map(number).collect())
    };
    net.stored.iter().map(&mut list).collect()
}

/// quantised.bin, by loops over the definition.
fn quantized(net: &Net, values: &Values) -> Vec<u8> {
    let of = |id: &str| values.iter().find(|(own, ..)| *own == id).map(|(.., numbers)| &numbers[..]).unwrap();
    let mut bytes = Vec::new();
    let mut constants = net.constants.iter();
    for entry in &net.entries {
        bytes.extend(constants.next().into_iter().flatten());
        let stored = net.stored.iter().find(|stored| stored.id == entry.id).unwrap();
        let (shared, own) = match (entry.merge, stored.shared) {
            (None, _) => (&[][..], of(entry.id)),
            (Some(id), 0) => (of(id), of(entry.id)),
            (Some(_), shared) => of(entry.id).split_at(shared * stored.rows),
        };
        let shared = |k: usize| if shared.is_empty() { 0.0 } else { shared[k % shared.len()] };
        let units = |number: f32| {
            let scaled = f64::from(entry.scale) * f64::from(number);
            if entry.round { scaled.round() as i64 } else { scaled.trunc() as i64 }
        };
        let (rows, columns) = (stored.rows, own.len() / stored.rows);
        for k in 0..own.len() {
            let k = if entry.transpose { k % columns * rows + k / columns } else { k };
            let sum = own[k] + shared(k);
            let integer = if entry.round_terms { units(own[k]) + units(shared(k)) } else { units(sum) };
            match entry.kind {
                "f32" => bytes.extend(sum.to_le_bytes()),
                "i8" => bytes.extend(i8::try_from(integer).unwrap().to_le_bytes()),
                "i16" => bytes.extend(i16::try_from(integer).unwrap().to_le_bytes()),
                _ => bytes.extend(i32::try_from(integer).unwrap().to_le_bytes()),
            }
        }
    }
    let filler: &[u8] = if net.zeros { &[0] } else { b"bullet" };
    let missing = bytes.len().next_multiple_of(64) - bytes.len();
    bytes.extend(filler.iter().cycle().take(missing));
    bytes
}

/// Where the numbers of quantised.bin are.
fn quantized_ranges(net: &Net) -> Vec<std::ops::Range<usize>> {
    let len = |entry: &Entry| {
        let stored = net.stored.iter().find(|stored| stored.id == entry.id).unwrap();
        let columns = stored.columns - if entry.merge.is_some() { stored.shared } else { 0 };
        stored.rows
            * columns
            * match entry.kind {
                "i8" => 1,
                "i16" => 2,
                _ => 4,
            }
    };
    let (mut constants, mut end) = (net.constants.iter(), 0);
    let mut range = |entry: &Entry| {
        let start = end + constants.next().map_or(0, Vec::len);
        end = start + len(entry);
        start..end
    };
    net.entries.iter().map(&mut range).collect()
}

pub fn checkpoint(net: &Net) -> Files {
    let weights = values(net, 0);
    let write = [records, old_records, headerless][net.form];
    let mut state = Files::new();
    let names = [["weights.bin", "params.bin"][net.form / 2], "momentum.bin", "velocity.bin", "slow.bin"];
    for (seed, name) in names.into_iter().enumerate().take(if net.optimizer == 2 { 4 } else { 3 }) {
        let mut all = values(net, seed);
        if net.form != 2 {
            let len = all.len();
            all.rotate_left(seed % len);
        }
        state.insert(name.to_owned(), write(&all));
    }
    if net.optimizer > 0 {
        let line = |stored: &Stored| format!("{},{}\n", stored.id, stored.rows);
        state.insert("step.txt".into(), net.stored.iter().rev().map(line).collect::<String>().into_bytes());
    }
    let mut files = within("optimiser_state/", state);
    let of =
        |entry: &Entry| weights.iter().find(|(id, ..)| *id == entry.id).map(|(.., numbers)| floats(numbers));
    files.insert("raw.bin".into(), net.entries.iter().filter_map(of).flatten().collect());
    files.insert("quantised.bin".into(), quantized(net, &weights));
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_directory_of_any_architecture_comes_back_from_its_weights(net in nets()) {
        let files = checkpoint(&net);
        let (contents, values) = read_all_with("", &files, &net.json.to_string(), &[]).unwrap();
        prop_assert!(contents.checkpoint.graph.is_some());
        let written = write(&contents.checkpoint, &values, "", &[]).unwrap();
        prop_assert_eq!(written.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
        for (name, bytes) in &files {
            prop_assert!(written[name] == *bytes, "{} differs", name);
        }
    }

    #[test]
    fn check_finds_any_changed_number(
        net in nets(), raw in any::<bool>(), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut files = checkpoint(&net);
        let checked = |files: &Files| read_all_with("", files, &net.json.to_string(), &[("check", "true")]);
        prop_assume!(!net.entries.is_empty());
        prop_assert!(checked(&files).is_ok(), "{:?}", checked(&files).err());
        let name = if raw { "raw.bin" } else { "quantised.bin" };
        let payload: Vec<usize> = match raw {
            true => (0..files[name].len()).collect(),
            false => quantized_ranges(&net).into_iter().flatten().collect(),
        };
        let at = payload[at.index(payload.len())];
        files.get_mut(name).unwrap()[at] ^= 1 << bit;
        let error = checked(&files).unwrap_err();
        prop_assert_eq!(error.kind(), ckpt_api::Kind::Mismatch);
        let offset = usize::try_from(error.context().offset.unwrap()).unwrap();
        prop_assert!(error.to_string().contains(name) && (offset..offset + 4).contains(&at), "{} {}", at, error);
    }

    #[test]
    fn quantised_bin_of_any_architecture_comes_back(net in nets(), integers in any::<bool>()) {
        prop_assume!(!net.entries.is_empty());
        let integers = integers && net.entries.iter().any(|entry| entry.kind != "f32");
        let file = one("quantised.bin", quantized(&net, &values(&net, 0)));
        let integers = ("integers", if integers { "true" } else { "false" });
        let (contents, values) = read_all_with("quantised.bin", &file, &net.json.to_string(), &[integers]).unwrap();
        prop_assert_eq!(write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap(), file);
    }

    #[test]
    fn raw_bin_of_any_architecture_comes_back(net in nets()) {
        prop_assume!(!net.entries.is_empty());
        let file = one("raw.bin", checkpoint(&net)["raw.bin"].clone());
        let (contents, values) = read_all_with("raw.bin", &file, &net.json.to_string(), &[]).unwrap();
        prop_assert_eq!(write(&contents.checkpoint, &values, "raw.bin", &[]).unwrap(), file);
    }
}
