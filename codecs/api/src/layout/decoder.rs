//! Decoders: how the stored bytes of an extent become its own.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};

/// The stored bytes that a stream decodes, from the first to the last.
pub struct StoredBytes {
    bytes: Box<dyn Read + Send>,
    len: u64,
}

impl StoredBytes {
    /// The bytes of a reader, which has so many.
    pub fn new(bytes: impl Read + Send + 'static, len: u64) -> Self {
        StoredBytes { bytes: Box::new(bytes), len }
    }

    /// The number of bytes, read or not.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Read for StoredBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

/// Returns the most bytes that so many stored bytes can decode to; 0 for parameters that no extent can have.
///
/// `u64::MAX` if there is no such number, as for bytes that are repeated: then [`crate::Limit::ChunkBytes`] bounds the
/// decoded bytes.
pub type LongestOutput = fn(u64, &Parameters) -> u64;

/// Starts to decode stored bytes to the given number of bytes.
///
/// # Errors
/// What [`DecodeStream`] may return.
pub type StartStream = fn(StoredBytes, &Parameters, u64) -> io::Result<Box<dyn DecodeStream>>;

/// Decodes all stored bytes into a buffer, and returns how many bytes of it they fill. The buffer has the number of
/// bytes that the extent needs: any other number is an error.
///
/// # Errors
/// As of [`DecodeStream`]. Stored bytes that decode to more than the buffer holds are an error, too.
pub type DecodeWhole = fn(&[u8], &Parameters, &mut [u8]) -> io::Result<usize>;

/// Decodes bytes that begin at the given offset of the extent where they are.
pub type DecodeInPlace = fn(u64, &Parameters, &mut [u8]);

/// Whether an extent can have these parameters.
pub type CheckParameters = fn(&Parameters) -> bool;

/// Decoded bytes, one after the other.
///
/// # For implementers
/// Memory is bounded: it depends on [`Decoder::with_memory`], never on the extent's size. The reader asks for no byte
/// after the number that [`StartStream`] got, but for one, which must not be there.
///
/// # Errors
/// A [`crate::Error`] within an [`io::Error`] is returned to the caller as it is. The text of any other error says
/// what is damaged. If reading the stored bytes fails, return that error.
pub trait DecodeStream: Read + Send {
    /// Checks what follows the last decoded byte, such as a checksum, and returns the number of stored bytes that were
    /// decoded; `None` for all that were read. The extent is corrupt unless that is all of them.
    ///
    /// # Errors
    /// As of reading.
    fn finish(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// How the stored bytes of extents become their own: a compression, or another way to store the same bytes.
///
/// A [`crate::Compression`] refers to its decoder by name, and plans store the name. [`crate::Codec::decoders`] has the
/// decoders of a codec, so that a plan that was written to a file finds them again.
///
/// The reader knows the length of the output before it decodes. It refuses lengths that so few stored bytes cannot
/// have, and stored bytes that decode to fewer or more.
///
/// ```
/// use ckpt_api::{Compression, Decoder, Extent, FileId, Input};
/// use std::io;
/// // Pairs of bytes: how often, and what.
/// const RUNS: &Decoder = &Decoder::whole("runs", |stored, _| stored.saturating_mul(128), |stored, _, out| {
///     let mut filled = 0;
///     for run in stored.chunks(2) {
///         let &[count, byte] = run else { return Err(io::ErrorKind::UnexpectedEof.into()) };
///         let rest = out.get_mut(filled..).unwrap_or_default();
///         let rest = rest.get_mut(..count.into()).ok_or_else(|| io::Error::other("the runs are too long"))?;
///         rest.fill(byte);
///         filled += rest.len();
///     }
///     Ok(filled)
/// });
/// let file = Input::memory("f", [("f".to_owned(), vec![3, 7, 2, 9])].into()).main()?;
/// let extent = Extent::new(FileId(0), 0, 5).with_compression(Compression::new(RUNS, 4));
/// assert_eq!(extent.open(&file)?.bytes(0, 5)?, [7, 7, 7, 9, 9]);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
pub struct Decoder {
    name: &'static str,
    pub(crate) kind: DecoderKind,
}

/// What a [`Decoder`] decodes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderUnit {
    /// The bytes of an extent, one after the other, with so many bytes of memory beyond half a mebibyte.
    Stream {
        /// Bytes.
        memory: u64,
    },
    /// All bytes of an extent.
    Whole,
    /// Any bytes of an extent, which are as many as are stored.
    InPlace,
}

/// What a decoder decodes at once, and how.
pub(crate) enum DecoderKind {
    /// The bytes of an extent, one after the other.
    Stream { longest: LongestOutput, start: StartStream, memory: u64 },
    /// All bytes of an extent.
    Whole { longest: LongestOutput, decode: DecodeWhole },
    /// Any bytes of an extent, which are as many as are stored.
    InPlace { is_possible: CheckParameters, decode: DecodeInPlace },
    /// What the host's decoder decodes at once.
    Hosted(&'static dyn HostedDecoder),
}

/// A decoder that is no function of the program, such as one in a plugin.
pub trait HostedDecoder: Send + Sync {
    /// What it decodes at once: a stream, or all bytes.
    fn unit(&self) -> DecoderUnit;

    /// As [`LongestOutput`].
    fn longest(&self, stored: u64, parameters: &Parameters) -> u64;

    /// As [`DecodeWhole`].
    ///
    /// # Errors
    /// As [`DecodeWhole`].
    fn decode(&self, stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize>;

    /// As [`StartStream`].
    ///
    /// # Errors
    /// As [`StartStream`].
    fn start(
        &self,
        stored: StoredBytes,
        parameters: &Parameters,
        len: u64,
    ) -> io::Result<Box<dyn DecodeStream>>;
}

impl Decoder {
    /// A decoder that decodes byte after byte, in memory that does not depend on the extent's size.
    ///
    /// `longest` bounds what stored bytes can decode to: extents that state more are refused before they are read. A
    /// name is the decoder's own among those of its codec.
    pub const fn stream(name: &'static str, longest: LongestOutput, start: StartStream) -> Self {
        Decoder { name, kind: DecoderKind::Stream { longest, start, memory: 0 } }
    }

    /// A decoder that needs all stored bytes at once and decodes them at once. Both are bounded by
    /// [`crate::Limit::ChunkBytes`], and count as memory. Otherwise as [`Decoder::stream`].
    pub const fn whole(name: &'static str, longest: LongestOutput, decode: DecodeWhole) -> Self {
        Decoder { name, kind: DecoderKind::Whole { longest, decode } }
    }

    /// A decoder that decodes any range of bytes by itself, without changing their number. Nothing of such an extent
    /// is skipped, shuffled or summed.
    pub const fn in_place(name: &'static str, is_possible: CheckParameters, decode: DecodeInPlace) -> Self {
        Decoder { name, kind: DecoderKind::InPlace { is_possible, decode } }
    }

    /// A decoder that is no function of the program.
    pub const fn hosted(name: &'static str, decoder: &'static dyn HostedDecoder) -> Self {
        Decoder { name, kind: DecoderKind::Hosted(decoder) }
    }

    /// The same with so many bytes of memory for a stream's window and tables, beyond half a mebibyte. Default: 0.
    #[must_use]
    pub const fn with_memory(mut self, bytes: u64) -> Self {
        if let DecoderKind::Stream { memory, .. } = &mut self.kind {
            *memory = bytes;
        }
        self
    }

    /// The name in plans and messages.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What the decoder decodes at once.
    pub fn unit(&self) -> DecoderUnit {
        match self.kind {
            DecoderKind::Stream { memory, .. } => DecoderUnit::Stream { memory },
            DecoderKind::Whole { .. } => DecoderUnit::Whole,
            DecoderKind::InPlace { .. } => DecoderUnit::InPlace,
            DecoderKind::Hosted(decoder) => decoder.unit(),
        }
    }

    /// Decodes all stored bytes into `out`, as [`DecodeWhole`] does. A stream is no such decoder.
    ///
    /// # Errors
    /// As [`DecodeWhole`].
    pub fn decode(&self, stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
        match self.kind {
            DecoderKind::Whole { decode, .. } => decode(stored, parameters, out),
            DecoderKind::InPlace { decode, .. } => {
                let len = stored.len().min(out.len());
                let (own, stored) =
                    (out.get_mut(..len).unwrap_or_default(), stored.get(..len).unwrap_or_default());
                own.copy_from_slice(stored);
                decode(0, parameters, own);
                Ok(len)
            }
            DecoderKind::Hosted(decoder) if decoder.unit() == DecoderUnit::Whole => {
                decoder.decode(stored, parameters, out)
            }
            _ => Err(io::Error::other("only a stream decodes these bytes")),
        }
    }

    /// Starts to decode a stream, as [`StartStream`] does.
    ///
    /// # Errors
    /// As [`StartStream`]; a decoder that is no stream.
    pub fn start(
        &self,
        stored: StoredBytes,
        parameters: &Parameters,
        len: u64,
    ) -> io::Result<Box<dyn DecodeStream>> {
        match self.kind {
            DecoderKind::Stream { start, .. } => start(stored, parameters, len),
            DecoderKind::Hosted(decoder) => decoder.start(stored, parameters, len),
            _ => Err(io::Error::other("only a stream is decoded byte after byte")),
        }
    }

    /// The most bytes that so many stored bytes can decode to; 0 for parameters that no extent can have.
    pub fn longest(&self, stored: u64, parameters: &Parameters) -> u64 {
        match self.kind {
            DecoderKind::Stream { longest, .. } | DecoderKind::Whole { longest, .. } => {
                longest(stored, parameters)
            }
            DecoderKind::InPlace { is_possible, .. } => match is_possible(parameters) {
                true => stored,
                false => 0,
            },
            DecoderKind::Hosted(decoder) => decoder.longest(stored, parameters),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({})", self.name)
    }
}

/// What a decoder needs to know of an extent beside its bytes, by name.
///
/// ```
/// use ckpt_api::Parameters;
/// let parameters = Parameters::default().with_number("width", 4).with_flag("is_signed", true);
/// let parameters = parameters.with_bytes("table", *b"ab");
/// assert_eq!((parameters.number("width"), parameters.flag("is_signed")), (Some(4), Some(true)));
/// assert_eq!(parameters.bytes("table"), Some(&b"ab"[..]));
/// assert_eq!(parameters.number("height"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parameters(Vec<(Cow<'static, str>, Parameter)>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
enum Parameter {
    Flag(bool),
    Number(u64),
    Bytes(#[serde(with = "crate::base64_text")] Box<[u8]>),
}

impl Parameters {
    /// The same with a number after the others.
    #[must_use]
    pub fn with_number(mut self, name: &'static str, value: u64) -> Self {
        self.0.push((name.into(), Parameter::Number(value)));
        self
    }

    /// The same with a truth value after the others.
    #[must_use]
    pub fn with_flag(mut self, name: &'static str, value: bool) -> Self {
        self.0.push((name.into(), Parameter::Flag(value)));
        self
    }

    /// The same with bytes after the others: for few bytes that have no place of their own in a file, as they are compressed
    /// together with much else. Plans store them, too.
    #[must_use]
    pub fn with_bytes(mut self, name: &'static str, value: impl Into<Box<[u8]>>) -> Self {
        self.0.push((name.into(), Parameter::Bytes(value.into())));
        self
    }

    /// The number of this name.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Parameter::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// The truth value of this name.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Parameter::Flag(value) => Some(*value),
            _ => None,
        }
    }

    /// The bytes of this name.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            Parameter::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Parameter> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

/// Which decoder an extent needs: its name and parameters, and the decoder itself once it is known.
#[derive(Clone, Debug)]
pub(crate) enum DecoderUse {
    /// A decoder without parameters: a million extents need no more memory than its address.
    Plain(&'static Decoder),
    Other(Box<OtherUse>),
}

#[derive(Clone, Debug)]
pub(crate) struct OtherUse {
    name: Cow<'static, str>,
    parameters: Parameters,
    /// `None` if the use was read from a plan, and nobody knows the decoder yet.
    decoder: Option<&'static Decoder>,
}

const NO_PARAMETERS: &Parameters = &Parameters(Vec::new());

impl DecoderUse {
    pub(crate) fn new(decoder: &'static Decoder, parameters: Parameters) -> Self {
        match parameters.is_empty() {
            true => DecoderUse::Plain(decoder),
            false => DecoderUse::Other(Box::new(OtherUse {
                name: decoder.name.into(),
                parameters,
                decoder: Some(decoder),
            })),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            DecoderUse::Plain(decoder) => decoder.name,
            DecoderUse::Other(other) => &other.name,
        }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        match self {
            DecoderUse::Plain(_) => NO_PARAMETERS,
            DecoderUse::Other(other) => &other.parameters,
        }
    }

    pub(crate) fn decoder(&self) -> Option<&'static Decoder> {
        match self {
            DecoderUse::Plain(decoder) => Some(decoder),
            DecoderUse::Other(other) => other.decoder,
        }
    }

    /// Takes the decoder of this name out of `known`, if the use lacks it.
    pub(crate) fn attach(&mut self, known: &[&'static Decoder]) {
        let DecoderUse::Other(other) = self else { return };
        let found = known.iter().find(|known| known.name == other.name);
        if let (None, Some(decoder)) = (other.decoder, found) {
            *self = DecoderUse::new(decoder, std::mem::take(&mut other.parameters));
        }
    }
}

/// Equal names and parameters.
impl PartialEq for DecoderUse {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.parameters() == other.parameters()
    }
}

impl Eq for DecoderUse {}

impl Hash for DecoderUse {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name(), self.parameters()).hash(state);
    }
}

/// The name, or a map from the name to the parameters.
impl Serialize for DecoderUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parameters = self.parameters();
        if parameters.is_empty() {
            return serializer.serialize_str(self.name());
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.name(), parameters)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for DecoderUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UseVisitor)
    }
}

struct UseVisitor;

impl<'de> Visitor<'de> for UseVisitor {
    type Value = DecoderUse;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a decoder, or a map from the name to parameters")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<DecoderUse, E> {
        Ok(stated(name.to_owned(), Parameters::default()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DecoderUse, A::Error> {
        let (name, parameters) = map.next_entry()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        match map.next_key::<String>()? {
            None => Ok(stated(name, parameters)),
            Some(_) => Err(A::Error::invalid_length(2, &self)),
        }
    }
}

/// A use as a document states it.
fn stated(name: String, parameters: Parameters) -> DecoderUse {
    DecoderUse::Other(Box::new(OtherUse { name: name.into(), parameters, decoder: None }))
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ParametersVisitor)
    }
}

struct ParametersVisitor;

impl<'de> Visitor<'de> for ParametersVisitor {
    type Value = Parameters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers, truth values and bytes by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
        let mut parameters = Parameters::default();
        while let Some((name, value)) = map.next_entry::<String, Parameter>()? {
            if parameters.0.len() == MOST_PARAMETERS || parameters.get(&name).is_some() {
                return Err(A::Error::custom("a decoder has too many parameters, or one of them twice"));
            }
            parameters.0.push((name.into(), value));
        }
        Ok(parameters)
    }
}

/// Parameters of a decoder in a document, at most.
const MOST_PARAMETERS: usize = 16;
