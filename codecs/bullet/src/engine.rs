//! The file that an engine maps into memory: a header of its own, members at multiples of a number of bytes, each in the
//! order in which the engine's instructions read it.

use crate::architecture::{Architecture, Entry, invalid};
use crate::format::{Part, Section, sections};
use crate::layout::Layout;
use crate::parameter::Parameter;
use crate::records;
use ckpt_api::{Error, File, Result, nearest};
use serde::{Deserialize, Serialize};

/// What an engine wants; an architecture's `engine`, or a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    /// What the file begins with.
    #[serde(default, skip_serializing_if = "Header::is_empty")]
    pub(crate) header: Header,
    /// Every member begins, and the file ends, at a multiple of so many bytes; zeros lie between.
    #[serde(default)]
    pub(crate) align: Align,
    /// What the file holds, in its order.
    pub(crate) members: Vec<Entry>,
}

/// Bytes, written as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Header(pub(crate) Vec<u8>);

impl Header {
    /// Longest that a header can be.
    const MOST: usize = 4096;

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(digits: String) -> std::result::Result<Self, String> {
        let byte = |pair: &[u8; 2]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
        };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().take(Self::MOST + 1).map(byte).collect();
        bytes.filter(|bytes| rest.is_empty() && bytes.len() <= Self::MOST).map(Header).ok_or_else(|| {
            format!("a header is hexadecimal digits, two for each of at most {} bytes", Self::MOST)
        })
    }
}

impl From<Header> for String {
    fn from(header: Header) -> String {
        header.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A number of bytes: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct Align(u64);

impl Align {
    /// The largest: a page.
    const MOST: u64 = 4096;

    /// The first multiple that is not below `end`.
    pub(crate) fn up(self, end: u64) -> Option<u64> {
        end.checked_next_multiple_of(self.0)
    }
}

impl Default for Align {
    fn default() -> Self {
        Align(1)
    }
}

impl TryFrom<u64> for Align {
    type Error = String;

    fn try_from(bytes: u64) -> std::result::Result<Self, String> {
        match bytes.is_power_of_two() && bytes <= Self::MOST {
            true => Ok(Align(bytes)),
            false => Err(format!("members are aligned to a power of two up to {}, not {bytes}", Self::MOST)),
        }
    }
}

impl From<Align> for u64 {
    fn from(align: Align) -> u64 {
        align.0
    }
}

/// What is built in, by name.
const PROFILES: [(&str, &str); 3] = [
    ("plain", include_str!("../schemas/profiles/plain.toml")),
    ("multi-avx2", include_str!("../schemas/profiles/multi-avx2.toml")),
    ("multi-avx512", include_str!("../schemas/profiles/multi-avx512.toml")),
];

/// The profile with this name.
pub(crate) fn profile(name: &str) -> Result<Engine> {
    let (_, text) = PROFILES.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        invalid("no such engine profile")
            .field("profile")
            .found(format!("'{name}'"))
            .help(nearest(name, PROFILES.iter().map(|(name, _)| *name)))
    })?;
    toml::from_str(text).map_err(|error| invalid("the profile is damaged").found(error.to_string()))
}

impl Entry {
    /// In which order the engine stores it; `None` where it is bullet's.
    pub(crate) fn layout(&self, parameter: &Parameter) -> Result<Option<Layout>> {
        if self.layout.is_empty() {
            return Ok(None);
        }
        Layout::parse(&self.layout, parameter).map(Some)
    }

    /// Checks what only an engine's file has.
    pub(crate) fn check_engine(&self, is_engine: bool, parameter: &Parameter) -> Result<()> {
        if !is_engine && (!self.layout.is_empty() || self.clip.is_some()) {
            return Err(invalid("bullet itself neither lays out nor clips what it saves")
                .help("put layout and clip among the members of 'engine'"));
        }
        if self.transpose && !self.layout.is_empty() {
            return Err(invalid("a member has a layout, and is transposed")
                .help("let the layout say the order alone"));
        }
        if self.clip.is_some() && self.limit().is_none() {
            let found = self.clip.map(|clip| clip.to_string()).unwrap_or_default();
            return Err(invalid("a bound to clip at is not usable")
                .found(found)
                .expected("a number above 0, of at least one unit of the scale, for an entry of integers"));
        }
        self.layout(parameter).map(drop)
    }
}

/// Whether an engine's file begins with its header, ends where it should, and has nothing between its members.
pub(crate) fn check(architecture: &Architecture, file: &File) -> Result<Vec<Section>> {
    let engine = architecture.net.engine.as_ref().ok_or_else(|| {
        Error::usage("what the engine's file is like is not known").file(file.name()).help(
            "describe it under 'engine' in the architecture file, or name a profile: --set profile=plain",
        )
    })?;
    let (sections, end) = sections(architecture, Part::Engine)?;
    let header = engine.header.0.len() as u64;
    check_header(file.name(), &engine.header, &file.bytes(0, header.min(file.len()))?)?;
    records::check_lengths(architecture, Part::Engine, file, &sections)?;
    if file.len() != end {
        return Err(Error::usage("the architecture does not fit the file")
            .file(file.name())
            .found(format!("{} bytes", file.len()))
            .expected(format!("{end} bytes, with members aligned to {}", u64::from(engine.align)))
            .help("correct the members, or 'align', in the architecture file"));
    }
    let mut before = header;
    let ends = sections.iter().map(|section| (section.offset, section.offset + section.len));
    for (start, after) in ends.chain([(end, end)]) {
        check_gap(file.name(), before, &file.bytes(before, start - before)?)?;
        before = after;
    }
    Ok(sections)
}

/// The bytes of a file between two members, which must be zeros.
fn check_gap(name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
    match bytes.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(position) => Err(Error::corrupt("what lies between two members is not zeros")
            .file(name)
            .offset(offset.saturating_add(position as u64))
            .expected("zeros up to the next multiple of 'align'")
            .help("the architecture may be that of another net")),
    }
}

/// The header of a file, which must be the engine's.
fn check_header(name: &str, header: &Header, found: &[u8]) -> Result<()> {
    let differs = |(own, other): (&u8, &u8)| own != other;
    match header.0.iter().zip(found).position(differs) {
        None if found.len() >= header.0.len() => Ok(()),
        position => Err(Error::corrupt("the file does not begin with the engine's header")
            .file(name)
            .offset(position.unwrap_or(found.len()) as u64)
            .found(String::from(Header(found.to_vec())))
            .expected(String::from(header.clone()))
            .help("correct 'header' in the architecture file, or name the right file")),
    }
}
