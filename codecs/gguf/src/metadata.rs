//! The keys and values to write: those of the checkpoint, of another GGUF file, of a JSON file.

use crate::format::{FILE_NAMESPACE, ID};
use crate::read::file_pairs;
use crate::split;
use crate::types::FileType;
use ckpt_api::{Checkpoint, Error, Input, Limit, Limits, MetadataMap, MetadataValue, Options, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Options that name files.
pub(crate) const LIKE: &str = "like";
pub(crate) const METADATA: &str = "metadata";
/// The option that names the pre-tokenizer, and its key.
pub(crate) const PRE: &str = "pre";
/// The option that names the model of an adapter. Who knows families of models reads it.
pub(crate) const BASE: &str = "base";
const PRE_KEY: &str = "tokenizer.ggml.pre";

/// The key that states, by number, which type most tensors have.
const FILE_TYPE: &str = "general.file_type";

/// The key of the version of the block types, and the version.
const QUANTIZATION_VERSION: &str = "general.quantization_version";
const VERSION_OF_BLOCKS: u32 = 2;

/// Returns the keys and values to write, in order. `file_type` is what the user asks for.
pub(crate) fn pairs(
    checkpoint: &Checkpoint,
    options: &Options,
    file_type: Option<FileType>,
) -> Result<MetadataMap> {
    let mut pairs = match options.text(LIKE) {
        Some(path) => file_pairs(path).map_err(|error| error.field(LIKE))?,
        None => checkpoint.metadata.namespace(ID).cloned().unwrap_or_default(),
    };
    match (file_type, pairs.get(FILE_TYPE)) {
        // As llama.cpp's quantizer does: both keys are set, behind the others.
        (Some(file_type), _) if file_type.is_mix() => {
            for (key, value) in [(QUANTIZATION_VERSION, VERSION_OF_BLOCKS), (FILE_TYPE, file_type.number)] {
                pairs.remove(key);
                pairs.insert(key, value);
            }
        }
        (Some(file_type), Some(MetadataValue::U32(stated))) if *stated != file_type.number => {
            pairs.insert(FILE_TYPE, file_type.number);
        }
        _ => {}
    }
    if let Some(pre) = options.text(PRE) {
        pairs.insert(PRE_KEY, pre);
    }
    if let Some(path) = options.text(METADATA) {
        for (key, value) in from_json(path).map_err(|error| error.field(METADATA))? {
            match value {
                MetadataValue::Null if pairs.remove(&key).is_none() => {
                    return Err(Error::usage("the metadata removes a key that is not there")
                        .field(METADATA)
                        .found(format!("'{}': null", key.escape_debug())));
                }
                MetadataValue::Null => {}
                value => drop(pairs.insert(key, value)),
            }
        }
    }
    Ok(pairs)
}

/// Returns what the file that was read states outside its keys.
pub(crate) fn of_file<'a>(checkpoint: &'a Checkpoint, key: &str) -> Option<&'a MetadataValue> {
    checkpoint.metadata.value(FILE_NAMESPACE, key)
}

/// Reads the keys and values of a JSON file.
fn from_json(path: &str) -> Result<MetadataMap> {
    let limits = Limits::default();
    let file = Input::open(path)?.main()?;
    let named = |error: Error| error.file(file.name());
    limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
    parse(&file.bytes(0, file.len())?).map_err(named)
}

/// Parses a JSON object of keys and values.
fn parse(json: &[u8]) -> Result<MetadataMap> {
    let Pairs(stated) = serde_json::from_slice(json).map_err(|error| {
        Error::usage("the metadata is not a valid JSON object").found(error.to_string()).expected(SHAPE)
    })?;
    if let Some((key, number)) = large_integer(str::from_utf8(json).unwrap_or_default()) {
        return Err(Error::usage("an integer of the metadata does not fit 64 bits")
            .field(key)
            .found(number.chars().take(80).collect::<String>())
            .expected("at least -9223372036854775808, at most 18446744073709551615")
            .help("state {\"$f64\": NUMBER} to write the nearest f64, or write the number as text"));
    }
    let mut pairs = MetadataMap::default();
    for (key, value) in stated {
        let wrong =
            |message: &'static str| Err(Error::usage(message).found(format!("'{}'", key.escape_debug())));
        if key.is_empty() {
            return wrong("a key of the metadata is empty");
        }
        if split::is_key(&key) {
            return wrong(
                "a key of the metadata states how the file is split, which follows from the size of its shards",
            );
        }
        let value = typed(value).map_err(|error| error.field(&key))?;
        if pairs.insert(key.clone(), value).is_some() {
            return wrong("a key of the metadata is stated twice");
        }
    }
    Ok(pairs)
}

/// Returns the key and the digits of the first integer that 64 bits do not hold: the parser makes a float of it. A number
/// whose type is stated may be one. The text is valid JSON.
fn large_integer(json: &str) -> Option<(&str, &str)> {
    let (mut rest, mut braces, mut text, mut key) = (json, 0usize, "", "");
    while let Some(first) = rest.chars().next() {
        let is_number = first == '-' || first.is_ascii_digit();
        let len = match first {
            '"' => text_len(rest),
            _ if is_number => rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))),
            _ => Some(first.len_utf8()),
        };
        let (token, after) = rest.split_at_checked(len.unwrap_or(rest.len())).unwrap_or((rest, ""));
        match first {
            '"' => text = token.get(1..token.len().saturating_sub(1)).unwrap_or_default(),
            ':' if braces == 1 => key = text,
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ if is_number && braces == 1 && is_large(token) => return Some((key, token)),
            _ => {}
        }
        rest = after;
    }
    None
}

/// Returns the length of the text in quotation marks at the beginning, with the marks.
fn text_len(json: &str) -> Option<usize> {
    let mut is_escaped = true;
    json.bytes()
        .position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })
        .map(|end| end + 1)
}

fn is_large(number: &str) -> bool {
    let digits = number.trim_start_matches('-');
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && number.parse::<u64>().is_err() && number.parse::<i64>().is_err()
}

/// The entries of a JSON object, as they are stated.
struct Pairs(Vec<(String, MetadataValue)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Pairs;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Pairs, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Pairs(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

const SHAPE: &str = "an object of keys and values, such as {\"general.architecture\": \"llama\"}";

/// Gives numbers without a width the one that llama.cpp's tools write: u32 or i32 and f32; integers of a list, i32.
fn typed(value: MetadataValue) -> Result<MetadataValue> {
    Ok(match value {
        MetadataValue::Map(map) if map.len() == 1 => wide(map)?,
        MetadataValue::List(values) => list(values)?,
        MetadataValue::F64(number) => narrow(number)?,
        MetadataValue::I64(number) => match (u32::try_from(number), i32::try_from(number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => number.into(),
        },
        other => other,
    })
}

/// The nearest f32, unless it is infinite or 0 if the number is neither.
fn narrow(number: f64) -> Result<MetadataValue> {
    let nearest = number as f32;
    if nearest.is_infinite() && number.is_finite() || nearest == 0.0 && number != 0.0 {
        return Err(Error::usage("a number of the metadata is beyond the range of f32")
            .found(number.to_string())
            .help(format!("state {{\"$f64\": {number:e}}} to write it as f64")));
    }
    Ok(MetadataValue::F32(nearest))
}

/// A number whose width JSON's own form leaves open: `{"$i64": 5}`, `{"$u64": 5}`, `{"$f32": 0.1}`, `{"$f64": 0.5}`.
fn wide(map: MetadataMap) -> Result<MetadataValue> {
    let number = |key: &str| map.get(key);
    let short =
        number("$f32").and_then(|value| value.as_f64().or(value.as_i64().map(|number| number as f64)));
    if let Some(number) = short {
        return narrow(number);
    }
    let signed = number("$i64").and_then(MetadataValue::as_i64).map(MetadataValue::I64);
    let unsigned = || number("$u64").and_then(MetadataValue::as_u64).map(MetadataValue::U64);
    let float = || match number("$f64")? {
        MetadataValue::F64(number) => Some(MetadataValue::F64(*number)),
        integer => integer.as_i64().map(|number| MetadataValue::F64(number as f64)),
    };
    if let Some(value) = signed.or_else(unsigned).or_else(float) {
        return Ok(value);
    }
    let value = MetadataValue::Map(map);
    let states_type = |key: &str| key.strip_prefix('$').is_some_and(|name| NUMBERS.contains(&name));
    match value.as_map().and_then(|map| map.iter().next()) {
        Some((key, _)) if states_type(key) => {
            let message = "a number of the metadata does not fit the type that it states";
            Err(Error::usage(message).found(value.to_string().chars().take(80).collect::<String>()))
        }
        _ => Ok(value),
    }
}

/// Types of numbers that a value can state.
const NUMBERS: [&str; 10] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"];

/// A list, whose integers have the smallest of i32, i64 and u64 that holds them all, or u64 where one states that.
fn list(values: Vec<MetadataValue>) -> Result<MetadataValue> {
    let all = |fits: fn(&MetadataValue) -> bool| values.iter().all(fits);
    let is_plain = |value: &MetadataValue| matches!(value, MetadataValue::I64(_) | MetadataValue::U64(_));
    // An integer that i64 holds is one, unless it states another type.
    let states_u64 =
        |value: &MetadataValue| matches!(value, MetadataValue::U64(number) if i64::try_from(*number).is_ok());
    let is_unsigned = all(|value| value.as_u64().is_some());
    if values.iter().all(is_plain) && values.iter().any(states_u64) && is_unsigned {
        let wide = values.iter().filter_map(|value| value.as_u64().map(MetadataValue::U64));
        return Ok(MetadataValue::List(wide.collect()));
    }
    if values.iter().all(is_plain) && !values.iter().any(states_u64) {
        if all(|value| value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())) {
            let short = |value: &MetadataValue| Some(i32::try_from(value.as_i64()?).ok()?.into());
            return Ok(MetadataValue::List(values.iter().filter_map(short).collect()));
        }
        if all(|value| value.as_u64().is_some()) && !all(|value| value.as_i64().is_some()) {
            return Ok(MetadataValue::List(
                values.iter().filter_map(|value| value.as_u64().map(MetadataValue::U64)).collect(),
            ));
        }
        return Ok(MetadataValue::List(values));
    }
    if all(|value| matches!(value, MetadataValue::F64(_) | MetadataValue::I64(_))) {
        let float = |value: &MetadataValue| {
            let number = value.as_f64().or_else(|| value.as_i64().map(|number| number as f64));
            narrow(number.unwrap_or_default())
        };
        return Ok(MetadataValue::List(values.iter().map(float).collect::<Result<_>>()?));
    }
    let stated = values.into_iter().map(|value| match value {
        MetadataValue::Map(map) if map.len() == 1 => wide(map),
        other => Ok(other),
    });
    Ok(MetadataValue::List(stated.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_width_get_the_one_that_other_tools_write() {
        let json = br#"{"a": 5, "b": -5, "c": 5000000000, "d": 0.5, "e": [1, -2], "f": [1, 5000000000], "g": [0.5, 1],
                        "h": {"$u16": 3}, "i": {"$i64": 5}, "j": {"$u64": 5}, "k": {"$f64": 0.5}, "l": true, "m": "x"}"#;
        let pairs = parse(json).unwrap();
        let expected: MetadataMap = [
            ("a", MetadataValue::U32(5)),
            ("b", MetadataValue::I32(-5)),
            ("c", MetadataValue::I64(5_000_000_000)),
            ("d", MetadataValue::F32(0.5)),
            ("e", [1i32, -2].into()),
            ("f", [1i64, 5_000_000_000].into()),
            ("g", [0.5f32, 1.0].into()),
            ("h", MetadataValue::U16(3)),
            ("i", MetadataValue::I64(5)),
            ("j", MetadataValue::U64(5)),
            ("k", MetadataValue::F64(0.5)),
            ("l", true.into()),
            ("m", "x".into()),
        ]
        .into_iter()
        .collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn a_type_that_a_number_states_is_kept_in_lists_and_must_hold_the_number() {
        let value = |json: &str| parse(json.as_bytes()).map(|pairs| pairs.get("a").cloned().unwrap());
        for (json, expected) in [
            (r#"{"a": [{"$u64": 1}, 2]}"#, MetadataValue::List(vec![1u64.into(), 2u64.into()])),
            (r#"{"a": [{"$i64": 1}, {"$i64": 2}]}"#, [1i64, 2].into()),
            (r#"{"a": [{"$f32": 1}, {"$f32": 2.5}]}"#, [1f32, 2.5].into()),
            (r#"{"a": [{"$f64": 1}, {"$f64": 2.5}]}"#, [1f64, 2.5].into()),
            (r#"{"a": {"$f32": 3}}"#, MetadataValue::F32(3.0)),
        ] {
            assert_eq!(value(json).unwrap(), expected, "{json}");
        }
        for json in [
            r#"{"a": {"$u8": 256}}"#,
            r#"{"a": {"$u64": -1}}"#,
            r#"{"a": [{"$i8": 200}]}"#,
            r#"{"a": {"$f32": "x"}}"#,
        ] {
            let error = value(json).unwrap_err().to_string();
            assert!(error.contains("does not fit the type that it states"), "{json}: {error}");
        }
    }

    #[test]
    fn a_number_is_the_nearest_f32_but_not_infinity_or_0() {
        let value = |json: &str| parse(json.as_bytes()).map(|pairs| pairs.get("a").cloned().unwrap());
        for json in [r#"{"a": 0.1}"#, r#"{"a": {"$f32": 0.1}}"#] {
            assert_eq!(value(json).unwrap(), MetadataValue::F32(0.1), "{json}");
        }
        assert_eq!(value(r#"{"a": {"$f64": 1e39}}"#).unwrap(), MetadataValue::F64(1e39));
        for json in [r#"{"a": 1e39}"#, r#"{"a": [1e39, 1]}"#, r#"{"a": -1e-60}"#, r#"{"a": {"$f32": 1e39}}"#]
        {
            let error = value(json).unwrap_err().to_string();
            assert!(error.contains("beyond the range of f32") && error.contains("$f64"), "{json}: {error}");
        }
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused_by_its_key_unless_it_states_that_it_is_a_float() {
        for json in [
            r#"{"a": 1, "b\"c": 18446744073709551616}"#,
            r#"{"x": {"$u8": 1}, "b\"c": [1, "9:", -9223372036854775809], "d": 5}"#,
        ] {
            let error = parse(json.as_bytes()).unwrap_err().to_string();
            for says in ["does not fit 64 bits", r#"b\"c"#, "$f64"] {
                assert!(error.contains(says), "{json}: {error}");
            }
        }
        let value = |json: &str| parse(json.as_bytes()).map(|pairs| pairs.get("a").cloned().unwrap());
        for (json, expected) in [
            (r#"{"a": 18446744073709551615}"#, MetadataValue::U64(u64::MAX)),
            (r#"{"a": -9223372036854775808}"#, MetadataValue::I64(i64::MIN)),
            (r#"{"a": 1e20}"#, MetadataValue::F32(1e20)),
            (r#"{"a": 100000000000000000000.0}"#, MetadataValue::F32(1e20)),
            (r#"{"a": {"$f64": 100000000000000000000}}"#, MetadataValue::F64(1e20)),
            (r#"{"a": "100000000000000000000"}"#, "100000000000000000000".into()),
            (r#"{"b\\": 1, "a": "x"}"#, "x".into()),
        ] {
            assert_eq!(value(json).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn what_is_no_object_of_keys_is_refused() {
        for json in ["", "[]", "5", "{", r#"{"": 1}"#, r#"{"a": 1, "a": 2}"#, r#"{"split.no": 0}"#] {
            assert_eq!(parse(json.as_bytes()).unwrap_err().kind(), ckpt_api::Kind::Usage, "{json}");
        }
    }
}
