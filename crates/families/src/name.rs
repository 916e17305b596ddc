//! What the name of a model says of it, and how many weights it has.

use ckpt_api::Tensor;

/// Units of the number of weights, from the largest.
const UNITS: [(u128, &str); 4] =
    [(1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"), (1_000, "K")];
/// Parts of a name that are a size without a number.
const SIZES: [&str; 7] = ["small", "mini", "medium", "large", "xl", "xxl", "l"];
/// Parts of a name that say what the model was trained for.
const PURPOSES: [&str; 4] = ["chat", "instruct", "vision", "lora"];

/// What the name of a model says: of `meta-llama/Llama-3.2-1B-Instruct`, organization, version, purpose, base and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The name without the organization, as it is.
    pub(crate) name: String,
    pub(crate) organization: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) purpose: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) size: Option<String>,
}

/// The name with spaces for hyphens, its words in title case unless they have capitals or begin with a number.
pub(crate) fn title(name: &str) -> String {
    let words = name.trim().split('-').flat_map(str::split_whitespace);
    let words = words.map(|word| match is_lower(word) && !begins_with_number(word) {
        true => capitalized(word),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a word has letters, and all of them are lowercase.
fn is_lower(word: &str) -> bool {
    word.chars().any(char::is_alphabetic) && !word.chars().any(char::is_uppercase)
}

fn begins_with_number(word: &str) -> bool {
    let rest = word.strip_prefix('v').unwrap_or(word);
    let is_version = is_version(rest) && rest.len() < word.len();
    is_version || word.starts_with(|first: char| first.is_ascii_digit())
}

/// Each run of letters begins with a capital.
fn capitalized(word: &str) -> String {
    let mut is_inside = false;
    let letters = word.chars().flat_map(|letter| {
        let begins = letter.is_alphabetic() && !is_inside;
        is_inside = letter.is_alphabetic();
        if begins { letter.to_uppercase().collect::<Vec<_>>() } else { vec![letter] }
    });
    letters.collect()
}

/// `1`, `1.5`, `3.2.1`
fn is_version(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How many numbers a model has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weights {
    pub(crate) total: u128,
    /// Those outside of experts.
    shared: u128,
    /// Those of one expert.
    expert: u128,
    /// The number of experts.
    experts: u128,
}

impl Weights {
    pub(crate) fn of(tensors: &[Tensor]) -> Self {
        let (mut weights, mut stacks) = (Weights::default(), 0);
        for tensor in tensors {
            let size = u128::from(tensor.shape.elements());
            weights.total += size;
            let axis = tensor.shape.rank().checked_sub(if tensor.name.contains(".bias") { 2 } else { 3 });
            let experts = axis.filter(|_| tensor.name.contains("_exps.") && tensor.shape.rank() >= 3);
            match experts.map(|axis| u128::from(tensor.shape[axis])).filter(|experts| *experts > 0) {
                Some(experts) => {
                    weights.expert += size / experts;
                    weights.experts += experts;
                    stacks += 1;
                }
                None => weights.shared += size,
            }
        }
        weights.experts = weights.experts.checked_div(stacks).unwrap_or_default();
        weights
    }

    /// The number of weights as people say it: `41K`, `8x7B`.
    pub(crate) fn label(self) -> String {
        match self.experts {
            0 => rounded(self.total),
            experts => format!("{experts}x{}", rounded(self.shared + self.expert)),
        }
    }
}

/// At least two digits.
fn rounded(count: u128) -> String {
    let (scale, unit) = UNITS.into_iter().find(|(scale, _)| count > *scale).unwrap_or((1_000, "K"));
    let scaled = count as f64 / scale as f64;
    let whole = format!("{scaled:.0}");
    let digits = whole.trim_start_matches('0').len();
    format!("{scaled:.*}{unit}", 2usize.saturating_sub(digits))
}

/// What a part of a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Nothing,
    Base,
    Version,
    BaseVersion,
    Type,
    Size,
    Purpose,
}

impl Parts {
    /// Names such as `Llama-3.2-1B-Instruct`, of a model with `total` weights. A name with spaces shows no parts.
    pub(crate) fn of(id: &str, total: u128) -> Self {
        if id.contains(' ') {
            return Parts { name: id.to_owned(), ..Parts::default() };
        }
        let (organization, name) = match id.split_once('/') {
            Some((organization, name)) => (Some(organization), name),
            None => (None, id),
        };
        let organization =
            organization.filter(|organization| !organization.starts_with('.')).map(str::to_owned);
        let mut parts: Vec<(String, Meaning)> = name
            .split('-')
            .filter(|part| !part.is_empty())
            .enumerate()
            .map(|(position, part)| meaning(part, position, total))
            .collect();
        let is_number = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit());
        if parts.iter().any(|(part, meaning)| *meaning == Meaning::Size && is_number(part)) {
            let words = parts.iter_mut().filter(|(part, own)| *own == Meaning::Size && !is_number(part));
            words.for_each(|(_, meaning)| *meaning = Meaning::Nothing);
        }
        let mut is_start = true;
        for (part, meaning) in &mut parts {
            match *meaning {
                Meaning::Nothing if is_start && part.starts_with(char::is_alphabetic) => {
                    *meaning = Meaning::Base
                }
                Meaning::Version if is_start => *meaning = Meaning::BaseVersion,
                Meaning::Nothing => (*meaning, is_start) = (Meaning::Purpose, false),
                _ => is_start = false,
            }
        }
        for (_, meaning) in parts.iter_mut().rev() {
            match *meaning {
                Meaning::BaseVersion => *meaning = Meaning::Version,
                _ => break,
            }
        }
        let joined = |wanted: &[Meaning]| {
            let mut found: Vec<&str> = Vec::new();
            for (part, _) in parts.iter().filter(|(_, meaning)| wanted.contains(meaning)) {
                if wanted != [Meaning::Size] || !found.contains(&part.as_str()) {
                    found.push(part);
                }
            }
            (!found.is_empty()).then(|| found.join("-"))
        };
        let (size, purpose) = (joined(&[Meaning::Size]), joined(&[Meaning::Purpose]));
        let version = joined(&[Meaning::Version]);
        let base = joined(&[Meaning::Base, Meaning::BaseVersion]);
        let base = base.filter(|_| size.is_some() || purpose.is_some() || version.is_some());
        Parts { name: name.to_owned(), organization, base, purpose, version, size }
    }
}

/// A part of a name, as it is written in keys, and what it says.
fn meaning(part: &str, position: usize, total: u128) -> (String, Meaning) {
    let lower = part.to_ascii_lowercase();
    let number = lower.strip_prefix('v').or_else(|| lower.strip_prefix("iter")).unwrap_or(&lower);
    if is_version(number) {
        return (part.to_owned(), Meaning::Version);
    }
    if is_type(&lower) {
        return (part.to_ascii_uppercase(), Meaning::Type);
    }
    if position > 0
        && let Some(size) = size(part, &lower)
    {
        return match weights_of(&size) {
            // A size that is far from the model's own is a part of what it was made from.
            Some(stated) if total > 0 && stated.abs_diff(total) > 7 * total / 8 => {
                (size.to_ascii_lowercase(), Meaning::Purpose)
            }
            _ => (size, Meaning::Size),
        };
    }
    let is_purpose = position > 0 && PURPOSES.contains(&lower.as_str());
    (part.to_owned(), if is_purpose { Meaning::Purpose } else { Meaning::Nothing })
}

/// `q4_k_m`, `iq3_s`, `bf16`, `fp32`
fn is_type(lower: &str) -> bool {
    let float = lower.strip_prefix('b').unwrap_or(lower);
    let float = float.strip_prefix("fp").or_else(|| float.strip_prefix('f'));
    let is_float = matches!(float, Some("16" | "32"));
    let quantized = lower.strip_prefix('i').unwrap_or(lower).strip_prefix('q');
    let mut parts = quantized.unwrap_or_default().split('_');
    let has_bits = parts.next().is_some_and(|bits| bits.len() == 1 && bits.as_bytes()[0].is_ascii_digit());
    is_float || has_bits && parts.all(|part| part.len() == 1)
}

/// A size, with a point and a capital unit: `1.5B`, `8x7B`, `A22B`, `7b1` as `7.1B`.
fn size(part: &str, lower: &str) -> Option<String> {
    if SIZES.contains(&lower) && lower != "l" {
        return Some(part.to_owned());
    }
    let body = lower.strip_prefix('a').unwrap_or_else(|| match lower.split_once('x') {
        Some((count, rest)) if is_version(count) && !count.contains('.') => rest,
        _ => lower,
    });
    let unit = body.find(['k', 'm', 'b', 't'])?;
    let (number, rest) = body.split_at(unit);
    let is_number = is_version(&number.replace('_', ".")) && number.matches(['.', '_']).count() <= 1;
    let is_end = rest.len() == 1 || rest.len() == 2 && rest.as_bytes()[1].is_ascii_digit();
    if !is_number || !is_end {
        return None;
    }
    let mut shown = part.replace('_', ".");
    if rest.len() == 2 {
        let digit = shown.pop()?;
        let letter = shown.pop()?;
        shown.extend(['.', digit, letter]);
    }
    let letter = shown.pop()?;
    shown.push(letter.to_ascii_uppercase());
    Some(shown)
}

/// The number of weights that a size states.
fn weights_of(size: &str) -> Option<u128> {
    let (number, unit) = size.split_at(size.len().checked_sub(1)?);
    let scale = UNITS.iter().find(|(_, own)| *own == unit)?.0;
    Some((number.parse::<f64>().ok()? * scale as f64) as u128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    #[test]
    fn a_name_gets_spaces_and_capitals() {
        for (name, expected) in [
            ("llama2_spm", "Llama2_Spm"),
            ("Llama-3.2-1B-Instruct", "Llama 3.2 1B Instruct"),
            ("qwen2.5-0.5b", "Qwen2.5 0.5b"),
            ("tiny-v2", "Tiny v2"),
        ] {
            assert_eq!(title(name), expected);
        }
    }

    #[test]
    fn parts_of_a_name_say_version_purpose_base_and_size() {
        let parts = Parts::of("Llama-3.2-1B-Instruct", 1_200_000_000);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            parts,
            Parts {
                name: "Llama-3.2-1B-Instruct".to_owned(),
                organization: None,
                base: text("Llama-3.2"),
                purpose: text("Instruct"),
                version: None,
                size: text("1B"),
            }
        );
        let parts = Parts::of("Mistral-7B-v0.3", 7_200_000_000);
        assert_eq!((parts.base, parts.version, parts.size), (text("Mistral"), text("v0.3"), text("7B")));
        for name in ["llama3", "my model 7B"] {
            assert_eq!(Parts::of(name, 41_000), Parts { name: name.to_owned(), ..Parts::default() });
        }
        let parts = Parts::of("meta-llama/Llama-2-7b-hf", 6_700_000_000);
        assert_eq!(
            (parts.organization, parts.size, parts.purpose),
            (text("meta-llama"), text("7B"), text("hf"))
        );
        assert_eq!(Parts::of("./tiny", 41_000).organization, None);
    }

    #[test]
    fn a_size_far_from_the_models_own_says_what_it_was_made_from() {
        let parts = Parts::of("tiny-70B", 41_000);
        assert_eq!((parts.size, parts.purpose.as_deref()), (None, Some("70b")));
    }

    #[test]
    fn the_number_of_weights_has_at_least_two_digits_and_counts_experts() {
        for (count, expected) in
            [(41_123, "41K"), (1_234_567_890, "1.2B"), (125_000_000, "125M"), (999, "1.0K"), (7, "0.01K")]
        {
            assert_eq!(rounded(count), expected, "{count}");
        }
        let tensor = |name: &str, shape: &[u64]| {
            Tensor::new(name, DType::F32, Shape::new(shape.iter().copied()).unwrap())
        };
        let tensors = [tensor("a.weight", &[100, 100]), tensor("b_exps.weight", &[4, 50, 100])];
        assert_eq!(Weights::of(&tensors).label(), "4x15K");
    }
}
