//! Random presets: what is written is what was read, and agrees with plain loops over bullet's definition.

use crate::build::{one, read, records, within, write};
use proptest::prelude::*;

/// A preset and its parameters: id, rows, columns.
#[derive(Debug, Clone)]
struct Net {
    preset: String,
    parameters: Vec<(&'static str, u64, u64)>,
    scales: [f64; 2],
    round: bool,
    transpose: bool,
}

fn nets() -> impl Strategy<Value = Net> {
    let sizes = (1u64..5, 1u64..5, 1u64..4, 1u64..4, 1u64..4);
    (sizes, any::<[bool; 4]>(), 1u32..300, 1u32..100).prop_map(
        |((features, size, out, buckets, inputs), [builder, round, transpose, factoriser], qa, qb)| {
            let family = if builder { "builder" } else { "simple" };
            // The builder family stores the factoriser in the first columns of l0w.
            let factoriser = factoriser && !builder;
            let preset = format!(
                "{family}:{features}x{size}x{out},buckets={buckets},inputs={inputs},factoriser={factoriser},qa={qa},qb={qb},round={round},transpose={transpose}"
            );
            let mut parameters = vec![("l0w", size, features * inputs)];
            if factoriser {
                parameters.push(("l0f", size, features));
            }
            parameters.extend([
                ("l0b", size, 1),
                ("l1w", out * buckets, 2 * size),
                ("l1b", out * buckets, 1),
            ]);
            let transpose = transpose && (!builder || buckets > 1);
            Net { preset, parameters, scales: [f64::from(qa), f64::from(qb)], round, transpose }
        },
    )
}

/// Values in stored order, mostly different and small enough for i16 at any scale here.
fn values(net: &Net) -> Vec<(&'static str, u64, Vec<f32>)> {
    let mut next = 0;
    let mut value = || {
        next += 1;
        ((next * 37) % 101 - 50) as f32 / 97.0
    };
    let list = |(id, rows, columns): &(&'static str, u64, u64)| {
        (*id, *rows, (0..rows * columns).map(|_| value()).collect())
    };
    net.parameters.iter().map(list).collect()
}

/// quantised.bin without its padding, by loops over the definition.
fn expected(net: &Net, values: &[(&'static str, u64, Vec<f32>)]) -> Vec<u8> {
    let shared = values.iter().find(|(id, ..)| *id == "l0f").map(|(.., shared)| shared);
    let mut bytes = Vec::new();
    for (id, rows, numbers) in values.iter().filter(|(id, ..)| *id != "l0f") {
        let scale = match *id {
            "l1w" => net.scales[1],
            "l1b" => net.scales[0] * net.scales[1],
            _ => net.scales[0],
        };
        let (rows, columns) = (*rows as usize, numbers.len() / *rows as usize);
        let order: Vec<usize> = match net.transpose && *id == "l1w" {
            true => (0..rows).flat_map(|row| (0..columns).map(move |column| column * rows + row)).collect(),
            false => (0..numbers.len()).collect(),
        };
        for k in order {
            let own =
                numbers[k] + shared.filter(|_| *id == "l0w").map_or(0.0, |shared| shared[k % shared.len()]);
            let scaled = scale * f64::from(own);
            let integer = if net.round { scaled.round() } else { scaled.trunc() };
            bytes.extend((integer as i16).to_le_bytes());
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_net_is_quantized_as_bullet_defines_it(net in nets()) {
        let values = values(&net);
        let files = within("optimiser_state/", one("weights.bin", records(&values)));
        let (contents, read_values) = read("", &files, &[("arch", &net.preset)]).unwrap();
        let options = [("parts", "raw,quantised,state")];
        let written = write(&contents.checkpoint, &read_values, "", &options).unwrap();
        prop_assert_eq!(&written["optimiser_state/weights.bin"], &files["optimiser_state/weights.bin"]);
        let expected = expected(&net, &values);
        prop_assert_eq!(&written["quantised.bin"][..expected.len()], &expected[..]);
        prop_assert_eq!(written["quantised.bin"].len(), expected.len().next_multiple_of(64));
    }

    #[test]
    fn damaged_files_are_refused_or_come_back(
        cuts in prop::collection::vec((0usize..200, 0usize..40, prop::collection::vec(any::<u8>(), 0..24)), 1..4),
        old in any::<bool>(),
    ) {
        let net = crate::build::net();
        let mut bytes = if old { crate::build::old_records(&net) } else { records(&net) };
        for (at, len, insert) in cuts {
            let at = at.min(bytes.len());
            let end = (at + len).min(bytes.len());
            bytes.splice(at..end, insert);
        }
        for (name, options) in [
            ("weights.bin", &[][..]),
            ("weights.bin", &[("arch", crate::build::PRESET)]),
            ("momentum.bin", &[]),
            ("raw.bin", &[("arch", crate::build::PRESET)]),
            ("quantised.bin", &[("arch", crate::build::PRESET)]),
        ] {
            let file = one(name, bytes.clone());
            if let Ok((contents, values)) = read(name, &file, options) {
                prop_assert_eq!(write(&contents.checkpoint, &values, name, &[]).unwrap(), file);
            }
        }
    }

    #[test]
    fn every_quantised_bin_comes_back(net in nets(), integers in any::<bool>()) {
        let mut file = expected(&net, &values(&net));
        file.extend(b"bullet".iter().cycle().take(file.len().next_multiple_of(64) - file.len()));
        let file = one("quantised.bin", file);
        let integers = ("integers", if integers { "true" } else { "false" });
        let (contents, values) = read("quantised.bin", &file, &[("arch", &net.preset), integers]).unwrap();
        prop_assert_eq!(write(&contents.checkpoint, &values, "quantised.bin", &[]).unwrap(), file);
    }
}
