//! What a net may be whose files state only ids and counts.

use crate::architecture::Architecture;
use crate::preset;
use ckpt_api::{Role, Tensor};

/// Features of a chess board as bullet counts them.
const CHESS: u64 = 768;

/// Sentences about what is not known, and a preset that fits.
pub(crate) fn propose(tensors: &[Tensor]) -> Vec<String> {
    let weights = || tensors.iter().filter(|tensor| tensor.role == Role::Weight);
    let count = |id: &str| weights().find(|tensor| tensor.name == id).map(|tensor| tensor.shape.elements());
    let fits = |text: &String| {
        let net = preset::parse(text).and_then(Architecture::new);
        net.is_ok_and(|net| {
            weights().count() == net.all_stored().count()
                && net.all_stored().all(|stored| count(stored.id) == stored.elements())
        })
    };
    let mut notes = vec![
        "the files say neither shapes nor activations: tensors are lists of numbers until an architecture is given, with --arch FILE or --set arch=PRESET".to_owned(),
    ];
    let found: Vec<String> = candidates(&count).into_iter().filter(fits).collect();
    if let Some(first) = found.first() {
        let others = match found.len() {
            1 => String::new(),
            _ => format!(" (or arch={})", found[1..].join(", arch=")),
        };
        notes.push(format!(
            "ids and counts fit --set arch={first}{others}; they cannot tell the activations, the types and scales of quantised.bin, what is transposed, output buckets from outputs, or a factoriser in the first columns from a bucket"
        ));
    }
    notes
}

/// Presets that may fit, from the counts of each id.
fn candidates(count: &dyn Fn(&str) -> Option<u64>) -> Vec<String> {
    let mut found = Vec::new();
    let Some((width, all)) = count("l0b").zip(count("l0w")).filter(|(width, _)| *width > 0) else {
        return found;
    };
    let biases: Vec<u64> = (1..16).map_while(|layer| count(&format!("l{layer}b"))).collect();
    let Some(buckets) = biases.last().copied().filter(|buckets| *buckets > 0) else { return found };
    let sizes: Vec<String> = [width]
        .into_iter()
        .chain(biases.iter().map(|bias| bias / buckets))
        .map(|size| size.to_string())
        .collect();
    let columns = all / width;
    let shared = count("l0f").map(|shared| shared / width);
    let features = match shared {
        Some(features) => features,
        None if columns > CHESS && columns.is_multiple_of(CHESS) => CHESS,
        None => columns,
    };
    let mut keys = String::new();
    if buckets > 1 {
        keys += &format!(",buckets={buckets}");
    }
    let outputs = keys.clone();
    if let Some(inputs) = columns.checked_div(features).filter(|inputs| *inputs > 1) {
        keys += &format!(",inputs={inputs}");
    }
    if shared.is_some() {
        keys += ",factoriser=true";
    }
    let columns =
        columns.checked_div(features).and_then(|sets| sets.checked_sub(1)).filter(|_| shared.is_none());
    let columns = columns
        .filter(|inputs| *inputs > 0)
        .map(|inputs| format!("{outputs},inputs={inputs},factoriser=true"));
    let columns = columns.map(|keys| format!("builder:{features}x{}{keys}", sizes.join("x")));
    let sizes = format!("{features}x{}{keys}", sizes.join("x"));
    match biases.len() {
        1 => {
            found.extend([
                format!("simple:{sizes}"),
                format!("builder:{sizes}"),
                format!("simple:{sizes},pairwise=true"),
            ]);
            found.extend(columns);
        }
        _ => found.extend([format!("multi:{sizes}"), format!("multi:{sizes},pairwise=false")]),
    }
    found
}
