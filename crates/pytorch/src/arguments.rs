//! Arguments of calls, as Python has them.

/// A list of integers, as Python has it.
pub(super) fn list(values: &[i64]) -> String {
    format!("[{}]", values.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// One integer, where all are the same, or a tuple.
pub(super) fn tuple(values: &[i64]) -> String {
    match values {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => first.to_string(),
        _ => format!("({})", values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// An argument with a name, unless it is the default.
pub(super) fn named(name: &str, values: &[i64], default: i64) -> Option<String> {
    values.iter().any(|value| *value != default).then(|| format!("{name}={}", tuple(values)))
}
