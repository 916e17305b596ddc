//! Parses the header of a file and the index of a sharded set, and maps dtypes.

use crate::dims::Dims;
use ckpt_api::{DType, Error, File, Limit, Limits, MetadataMap, Name, Result, Shape};
use safetensors::Dtype;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Metadata namespace of the pairs in `__metadata__`.
pub const NAMESPACE: &str = "safetensors";
/// Metadata namespace of the keys in `metadata` of a sharded set's index.
pub const INDEX_NAMESPACE: &str = "safetensors.index";
/// Extension of a file.
pub const EXTENSION: &str = ".safetensors";
/// Extension of a sharded set's index.
pub const INDEX_EXTENSION: &str = ".safetensors.index.json";
/// Bytes of the length field at the start of a file.
pub const LENGTH_BYTES: u64 = 8;
/// Where the data begin is a multiple of this.
pub const ALIGNMENT: u64 = 8;
/// Bytes of the longest header that other readers accept.
pub const LONGEST_HEADER: u64 = 100_000_000;
/// The header's key for pairs of strings; no tensor can have this name.
pub const METADATA: &str = "__metadata__";
/// The option, and the key of the header, that name a framework.
pub(crate) const FORMAT: &str = "format";

/// The header's description of a tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Dtype of the elements.
    pub dtype: Dtype,
    /// Length of each axis.
    pub shape: Dims,
    /// Start and end of its bytes, relative to the end of the header.
    pub data_offsets: (u64, u64),
}

/// A header: pairs of strings, and the tensors in the order of the header.
#[derive(Debug, Default)]
pub struct Header {
    /// `__metadata__`; `None` if the header has no such key.
    pub pairs: Option<BTreeMap<String, String>>,
    /// Tensors by name.
    pub tensors: Vec<(Name, Entry)>,
}

impl Header {
    /// Parses and checks a header. It enforces the rules of the `safetensors` crate, and rules of the format that the
    /// crate does not enforce: `{` comes first, no key appears twice, and the product of a shape does not overflow even
    /// if an axis has length 0.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let at = |position: usize| LENGTH_BYTES.saturating_add(position as u64);
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::corrupt("the header is not UTF-8").offset(at(error.valid_up_to())).help(DAMAGED)
        })?;
        if !text.starts_with('{') {
            return Err(Error::corrupt("the header does not begin with '{'")
                .offset(at(0))
                .found(
                    text.chars().next().map_or("nothing".to_owned(), |c| format!("'{}'", c.escape_debug())),
                )
                .help("the file is not a safetensors file, or is damaged"));
        }
        let mut key = String::new();
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = HeaderSeed { key: &mut key }.deserialize(&mut json);
        let header = parsed.and_then(|header| json.end().map(|()| header)).map_err(|error| {
            let wrong = Error::corrupt("the header does not follow the safetensors format");
            let wrong = if key.is_empty() { wrong } else { wrong.field(key.as_str()) };
            wrong.offset(at(position(text, &error))).found(error.to_string()).help(DAMAGED)
        })?;
        header.check()?;
        Ok(header)
    }

    /// Reads the header of a file; returns it with the offset of the first byte after it. Checks that the tensors' bytes
    /// fill the rest of the file.
    ///
    /// ```
    /// # use ckpt_api::{Input, Limits};
    /// # let mut bytes = 56u64.to_le_bytes().to_vec();
    /// # bytes.extend(br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  "#);
    /// # bytes.extend([0; 8]);
    /// # let input = Input::memory("m.safetensors", [("m.safetensors".to_owned(), bytes)].into());
    /// let (header, start) = ckpt_safetensors::Header::read(&input.main()?, &Limits::default())?;
    /// assert_eq!((header.tensors[0].0.as_str(), start), ("w", 64));
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`], [`ckpt_api::Kind::Io`].
    pub fn read(file: &File, limits: &Limits) -> Result<(Self, u64)> {
        let named = |error: Error| error.file(file.name());
        let mut prefix = [0; 8];
        file.read_at(0, &mut prefix)?;
        let len = u64::from_le_bytes(prefix);
        let start = LENGTH_BYTES.checked_add(len).filter(|start| *start <= file.len()).ok_or_else(|| {
            named(Error::corrupt("the header is longer than the file"))
                .offset(0)
                .field("header length")
                .found(ckpt_api::count(len, "byte"))
                .expected(format!("at most {} bytes", file.len().saturating_sub(LENGTH_BYTES)))
                .help("the file is cut short, or is not a safetensors file")
        })?;
        limits.check(Limit::HeaderBytes, len).map_err(named)?;
        let header = Self::parse(&file.bytes(LENGTH_BYTES, len)?).map_err(named)?;
        limits.check(Limit::Tensors, header.tensors.len() as u64).map_err(named)?;
        let end = start.checked_add(header.data_len());
        if end != Some(file.len()) {
            let short = end.is_none_or(|end| end > file.len());
            let (what, help) = match short {
                true => ("the file ends before its last tensor does", "the file is cut short: copy it again"),
                false => {
                    ("bytes follow the last tensor", "the file was appended to or damaged: copy it again")
                }
            };
            let expected =
                end.map_or("more than can be counted".to_owned(), |end| ckpt_api::count(end, "byte"));
            return Err(named(Error::corrupt(what))
                .offset(end.unwrap_or(u64::MAX).min(file.len()))
                .found(ckpt_api::count(file.len(), "byte"))
                .expected(expected)
                .help(help));
        }
        Ok((header, start))
    }

    /// Returns the number of bytes of all tensors together.
    pub fn data_len(&self) -> u64 {
        self.tensors.iter().map(|(_, entry)| entry.data_offsets.1).max().unwrap_or(0)
    }

    /// Returns the header's bytes: the length, the JSON, and spaces up to where the data begin. `start` chooses that, given the
    /// least multiple of 8 that the header leaves free.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a header that is longer than readers accept.
    pub fn to_bytes(&self, start: impl FnOnce(u64) -> u64) -> Result<Vec<u8>> {
        header_bytes(self, start)
    }

    /// Checks that names are unique, and that the tensors' bytes follow each other without overlap or gap.
    fn check(&self) -> Result<()> {
        if let Some(name) = ckpt_api::first_repeated(self.tensors.iter().map(|(name, _)| name.as_str())) {
            return Err(Error::corrupt("the header names a tensor twice").tensor(name).help(DAMAGED));
        }
        let mut ordered: Vec<&(Name, Entry)> = self.tensors.iter().collect();
        ordered.sort_by_key(|(_, entry)| entry.data_offsets);
        let mut end = 0;
        for (name, entry) in ordered {
            end = entry.check(end).map_err(|error| error.tensor(name).help(DAMAGED))?;
        }
        Ok(())
    }
}

/// Returns the header's bytes: the length, the JSON, and spaces up to where the data begin. `start` chooses that, given the
/// least multiple of 8 that the header leaves free.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a header that is longer than readers accept.
pub fn header_bytes(header: &impl Serialize, start: impl FnOnce(u64) -> u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_BYTES as usize];
    serde_json::to_writer(&mut bytes, header).map_err(without_json_form)?;
    let least = (bytes.len() as u64).next_multiple_of(ALIGNMENT);
    let longest = LONGEST_HEADER + LENGTH_BYTES;
    let start = Some(start(least)).filter(|start| (least..=longest).contains(start)).unwrap_or(least);
    let len = start - LENGTH_BYTES;
    if len > LONGEST_HEADER {
        return Err(Error::unsupported("the header would be longer than readers of safetensors accept")
            .found(ckpt_api::count(len, "byte"))
            .expected(format!("at most {LONGEST_HEADER}"))
            .help("write a sharded set (shard_size), or leave the metadata out (metadata=none)"));
    }
    bytes.resize(usize::try_from(len + LENGTH_BYTES).unwrap_or(bytes.len()), b' ');
    for (byte, of_len) in bytes.iter_mut().zip(len.to_le_bytes()) {
        *byte = of_len;
    }
    bytes.shrink_to_fit();
    Ok(bytes)
}

pub fn without_json_form(error: serde_json::Error) -> Error {
    Error::unsupported("the metadata has no JSON form").found(error.to_string())
}

const DAMAGED: &str = "the file is damaged or was written by a faulty tool: copy or write it again";

impl Entry {
    /// Checks this entry, given the end of the previous tensor; returns its own end.
    fn check(&self, previous: u64) -> Result<u64> {
        let (start, end) = self.data_offsets;
        let field = |error: Error| error.field("data_offsets").found(format!("[{start}, {end}]"));
        if start != previous {
            let what = if start < previous {
                "the tensor overlaps another"
            } else {
                "bytes of no tensor precede it"
            };
            return Err(field(Error::corrupt(what)).expected(format!("a start at {previous}")));
        }
        let shape = Shape::new(&self.shape[..]).map_err(|error| error.field("shape"))?;
        let bits = shape.elements().checked_mul(self.dtype.bitsize() as u64);
        let bits = bits.ok_or_else(|| Error::corrupt("the shape has too many elements").field("shape"))?;
        if !bits.is_multiple_of(8) {
            return Err(Error::corrupt("packed elements do not fill whole bytes")
                .field("shape")
                .found(format!("{shape} of {}", self.dtype)));
        }
        if end.checked_sub(start) != Some(bits / 8) {
            return Err(field(Error::corrupt("the stored size does not fit the shape")).expected(format!(
                "{} bytes for {shape} of {}",
                bits / 8,
                self.dtype
            )));
        }
        Ok(end)
    }
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.tensors.iter().map(|(name, entry)| (name.as_str(), entry));
        serialize_header(serializer, self.pairs.as_ref(), entries)
    }
}

/// Writes pairs and entries as the one map that a header is.
pub fn serialize_header<'a, S: Serializer>(
    serializer: S,
    pairs: Option<&BTreeMap<String, String>>,
    entries: impl IntoIterator<Item = (&'a str, impl Serialize)>,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    if let Some(pairs) = pairs {
        map.serialize_entry(METADATA, pairs)?;
    }
    for (name, entry) in entries {
        map.serialize_entry(name, &entry)?;
    }
    map.end()
}

/// Parses a header; `key` becomes the key at which parsing stops.
struct HeaderSeed<'a> {
    key: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for HeaderSeed<'_> {
    type Value = Header;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object that describes tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut pairs: Option<Option<UniquePairs<String>>> = None;
        let mut tensors = Vec::new();
        while let Some(key) = map.next_key::<Name>()? {
            key.as_str().clone_into(self.key);
            if key == METADATA {
                if pairs.replace(map.next_value()?).is_some() {
                    return Err(A::Error::custom("the key is given twice"));
                }
            } else {
                tensors.push((key, map.next_value()?));
            }
        }
        self.key.clear();
        let pairs = pairs.flatten().map(|pairs| pairs.0);
        Ok(Header { pairs, tensors })
    }
}

/// A JSON object in which a repeated key is an error.
#[derive(Debug)]
pub struct UniquePairs<V>(pub BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniquePairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor(PhantomData))
    }
}

struct UniqueVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueVisitor<V> {
    type Value = UniquePairs<V>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if let Some((key, _)) = pairs.get_key_value(&key) {
                return Err(A::Error::custom(format!("the key '{key}' is given twice")));
            }
            pairs.insert(key, value);
        }
        Ok(UniquePairs(pairs))
    }
}

/// The index `*.safetensors.index.json`, which names the shard of each tensor.
#[derive(Debug, Deserialize)]
pub struct Index {
    /// `total_size`, and any other keys of the writer.
    #[serde(default)]
    pub metadata: Option<MetadataMap>,
    /// Name of the shard, by name of the tensor.
    pub weight_map: UniquePairs<String>,
}

impl Index {
    /// Parses an index.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let index: Index = serde_json::from_slice(bytes).map_err(|error| {
            let text = String::from_utf8_lossy(bytes);
            Error::corrupt("the index does not follow the safetensors format")
                .offset(position(&text, &error) as u64)
                .found(error.to_string())
                .expected("{\"metadata\": {…}, \"weight_map\": {tensor: shard, …}}")
        })?;
        if index.weight_map.0.is_empty() {
            return Err(Error::corrupt("the index names no tensor").field("weight_map"));
        }
        Ok(index)
    }
}

/// Returns the offset in `text` of a JSON error.
fn position(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    before.saturating_add(error.column().saturating_sub(1)).min(text.len())
}

/// Every dtype of safetensors, under both names.
const DTYPES: [(DType, Dtype); 22] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::Bf16, Dtype::BF16),
    (DType::F8E5m2, Dtype::F8_E5M2),
    (DType::F8E4m3, Dtype::F8_E4M3),
    (DType::F8E4m3fnuz, Dtype::F8_E4M3FNUZ),
    (DType::F8E5m2fnuz, Dtype::F8_E5M2FNUZ),
    (DType::F8E8m0, Dtype::F8_E8M0),
    (DType::F6E2m3, Dtype::F6_E2M3),
    (DType::F6E3m2, Dtype::F6_E3M2),
    (DType::F4E2m1, Dtype::F4),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I16, Dtype::I16),
    (DType::I8, Dtype::I8),
    (DType::U64, Dtype::U64),
    (DType::U32, Dtype::U32),
    (DType::U16, Dtype::U16),
    (DType::U8, Dtype::U8),
    (DType::Bool, Dtype::BOOL),
    (DType::C64, Dtype::C64),
];

/// Lists the dtypes of safetensors.
pub const NATIVE: [DType; 22] = {
    let mut native = [DType::F64; 22];
    let mut k = 0;
    while k < DTYPES.len() {
        native[k] = DTYPES[k].0;
        k += 1;
    }
    native
};

/// Returns safetensors' name of a dtype.
pub fn native(dtype: DType) -> Option<Dtype> {
    DTYPES.iter().find(|(ours, _)| *ours == dtype).map(|(_, theirs)| *theirs)
}

/// Returns the dtype with this name in safetensors.
pub fn dtype(native: Dtype) -> Option<DType> {
    DTYPES.iter().find(|(_, theirs)| *theirs == native).map(|(ours, _)| *ours)
}

/// Returns the dtype to store `elements` of `dtype` as: itself or, if safetensors lacks it, one that holds every value
/// exactly; `None` if there is none.
pub fn holder(dtype: DType, elements: u64) -> Option<DType> {
    match dtype {
        // Values up to 28 in steps of at least 1/16 with at most 3 bits of fraction.
        DType::F4E2m1 | DType::F6E2m3 | DType::F6E3m2 if !fills_bytes(dtype, elements) => Some(DType::F8E4m3),
        _ => dtype.holder(|dtype| native(dtype).is_some()),
    }
}

fn fills_bytes(dtype: DType, elements: u64) -> bool {
    let bits = dtype.bits().and_then(|bits| elements.checked_mul(u64::from(bits)));
    bits.is_some_and(|bits| bits.is_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_a_dtype_mean_the_same_number_of_bits() {
        for (ours, theirs) in DTYPES {
            assert_eq!(ours.bits().map(|bits| bits as usize), Some(theirs.bitsize()), "{ours}");
            assert_eq!((native(ours), dtype(theirs)), (Some(theirs), Some(ours)));
        }
    }

    #[test]
    fn every_dtype_has_a_holder_but_c128_and_those_with_lengths() {
        let homeless: Vec<&str> = DType::ALL
            .iter()
            .filter(|dtype| holder(**dtype, 3).is_none())
            .map(|dtype| dtype.name())
            .collect();
        assert_eq!(homeless, ["c128", "string", "variant"]);
    }

    #[test]
    fn packed_elements_stay_packed_where_they_fill_bytes() {
        assert_eq!(holder(DType::F4E2m1, 2), Some(DType::F4E2m1));
        assert_eq!(holder(DType::F4E2m1, 3), Some(DType::F8E4m3));
        assert_eq!(holder(DType::F6E3m2, 4), Some(DType::F6E3m2));
        assert_eq!(holder(DType::F6E2m3, 2), Some(DType::F8E4m3));
    }

    #[test]
    fn a_json_error_is_found_at_its_byte() {
        let error = Header::parse(b"{\"a\":\n  7}").unwrap_err();
        assert_eq!((error.context().offset, error.context().field), (Some(16), Some("a")));
    }

    /// Returns all finite values from 0 up of a float with these bits, without the last `specials` codes.
    fn values(exponent_bits: i32, fraction_bits: i32, bias: i32, specials: i32) -> Vec<f64> {
        let codes = (1 << (exponent_bits + fraction_bits)) - specials;
        let value = |code: i32| {
            let (exponent, fraction) = (code >> fraction_bits, code & ((1 << fraction_bits) - 1));
            let fraction = f64::from(fraction) / f64::from(1 << fraction_bits);
            // Exact, which `powi` need not be.
            let power = |exponent: i32| f64::from(1 << (exponent + 15)) / f64::from(1 << 15);
            match exponent {
                0 => fraction * power(1 - bias),
                _ => (1.0 + fraction) * power(exponent - bias),
            }
        };
        (0..codes).map(value).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic alone, of thousands of numbers")]
    fn a_float_that_safetensors_lacks_is_held_exactly() {
        let f16 = values(5, 10, 15, 1 << 10);
        let e4m3 = values(4, 3, 7, 1);
        let b11 = values(4, 3, 11, 0);
        assert_eq!((b11.len(), e4m3.last()), (128, Some(&448.0)));
        assert!(b11.iter().all(|value| f16.contains(value)));
        for (guest, largest) in
            [(values(2, 1, 1, 0), 6.0), (values(2, 3, 1, 0), 7.5), (values(3, 2, 3, 0), 28.0)]
        {
            assert_eq!(guest.last(), Some(&largest));
            assert!(guest.iter().all(|value| e4m3.contains(value)));
        }
    }
}
