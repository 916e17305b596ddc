//! Parses and writes the header of a `.npy` array: magic number, version, length, and a Python dict with three keys.

use crate::format::{OPTION, UNTYPED, code, dtype};
use ckpt_api::fields::{array, le};
use ckpt_api::{
    AxisOrder, DType, Encoding, Endian, Error, Fields, File, Limit, Limits, Result, Setting, Shape, Text,
    text,
};
use nom::Parser;

pub(crate) const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// NumPy pads the bytes before the data to a multiple of this.
const ALIGNMENT: usize = 64;
/// Digits that NumPy reserves for the length of the axis along which an array grows.
const GROWTH_DIGITS: usize = 21;
/// Bytes of the longest header of an array of numbers; only structured arrays have longer ones.
const LONGEST: u64 = 64 << 10;

/// Version of the header, which determines the size of its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
    Three,
}

impl Version {
    pub(crate) fn from_number(number: u64) -> Option<Version> {
        [Version::One, Version::Two, Version::Three].into_iter().find(|v| u64::from(v.number()) == number)
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
            Version::Three => 3,
        }
    }

    fn length_bytes(self) -> u64 {
        if self == Version::One { 2 } else { 4 }
    }
}

/// The content of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) endian: Endian,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Shape,
}

/// A header, as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) header: Header,
    pub(crate) version: Version,
    /// The dict, and everything after it up to the data.
    pub(crate) text: String,
}

impl Stored {
    /// Reads the header of an array that has `len` bytes from offset `start`.
    /// `untyped` is the dtype of elements for which NumPy has no name.
    pub(crate) fn read(
        file: &File,
        start: u64,
        len: u64,
        untyped: Option<DType>,
        limits: &Limits,
    ) -> Result<Self> {
        let at = |relative: u64| start.saturating_add(relative);
        let mut fields = Fields::range(file, start, len)?.with_message("the array's header is cut short");
        let magic = fields.parse(array::<8>)?;
        let Some([major, minor]) = magic.strip_prefix(&MAGIC) else {
            return Err(Error::unsupported("it is not a NumPy array")
                .offset(start)
                .found(format!("\"{}\"", magic.escape_ascii()))
                .expected("\"\\x93NUMPY\""));
        };
        let version = Version::from_number(u64::from(*major)).filter(|_| *minor == 0).ok_or_else(|| {
            Error::unsupported("unknown version of an array's header")
                .offset(at(6))
                .found(format!("{major}.{minor}"))
                .expected("1.0, 2.0 or 3.0")
        })?;
        let length: u64 = fields.parse(|input| match version {
            Version::One => le::<u16>.map(u64::from).parse(input),
            Version::Two | Version::Three => le::<u32>.map(u64::from).parse(input),
        })?;
        limits.check(Limit::HeaderBytes, length).map_err(|error| error.offset(at(8)))?;
        if (LONGEST + 1..=fields.remaining()).contains(&length) {
            return Err(Error::unsupported("the array's header is longer than that of any array of numbers")
                .offset(at(8))
                .found(ckpt_api::count(length, "byte")));
        }
        let first = 8 + version.length_bytes();
        let text = ascii(fields.bytes(length)?).map_err(|error| error.offset(at(first)))?;
        let header =
            Header::parse(&text, untyped).map_err(|(error, position)| error.offset(at(first + position)))?;
        Ok(Stored { header, version, text })
    }

    /// Returns the header that NumPy 2 writes for this content.
    pub(crate) fn new(header: Header) -> Option<Self> {
        let text = header.text()?;
        Some(Stored { header, version: Version::One, text })
    }

    /// Restores a header from its text, which other tools may have changed.
    pub(crate) fn from_text(text: &str, version: Version) -> Option<Self> {
        let fits = text.len() as u64 <= LONGEST.min(u64::from(u16::MAX)) && text.is_ascii();
        let header = Header::parse(text, None).ok().filter(|_| fits)?;
        Some(Stored { header, version, text: text.to_owned() })
    }

    /// Returns the number of bytes before the data.
    pub(crate) fn len(&self) -> u64 {
        8 + self.version.length_bytes() + self.text.len() as u64
    }

    /// Returns the bytes before the data.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([self.version.number(), 0]);
        let length = (self.text.len() as u64).to_le_bytes();
        bytes.extend(length.iter().take(if self.version == Version::One { 2 } else { 4 }));
        bytes.extend_from_slice(self.text.as_bytes());
        bytes
    }
}

fn ascii(bytes: Vec<u8>) -> Result<String> {
    let plain = String::from_utf8(bytes).ok().filter(|text| text.is_ascii());
    plain.ok_or_else(|| {
        Error::unsupported("the array's header has letters beyond ASCII")
            .help("only structured arrays can have them: save each field as a separate array")
    })
}

impl Header {
    /// Parses the dict; an error comes with its position in the text.
    fn parse(text: &str, untyped: Option<DType>) -> std::result::Result<Self, (Error, u64)> {
        let mut scanner = Scanner { text, at: 0, untyped };
        scanner.dict().map_err(|error| (error, scanner.at as u64))
    }

    /// Returns the dict, spaces, and the end of the line; `None` for a dtype that NumPy lacks.
    fn text(&self) -> Option<String> {
        let order = match (self.dtype.component_bytes(), self.endian) {
            (1, _) => '|',
            (_, Endian::Little) => '<',
            (_, Endian::Big) => '>',
        };
        let code = code(self.dtype)?;
        let fortran = if self.fortran_order { "True" } else { "False" };
        let axes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let comma = if axes.len() == 1 { "," } else { "" };
        let shape = axes.join(", ");
        let mut text =
            format!("{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': ({shape}{comma}), }}");
        let growing = if self.fortran_order { axes.last() } else { axes.first() };
        let room = growing.map_or(0, |axis| GROWTH_DIGITS.saturating_sub(axis.len()));
        // NumPy adds a whole line where none is needed.
        let before = 10 + text.len() + room + 1;
        let padding = ALIGNMENT - before % ALIGNMENT;
        text.extend(std::iter::repeat_n(' ', room + padding));
        text.push('\n');
        Some(text)
    }

    /// Returns the encoding of the data.
    pub(crate) fn encoding(&self) -> Encoding {
        let row_major = Encoding::new(self.dtype, AxisOrder::row_major(self.shape.rank()));
        let encoding = if self.fortran_order { row_major.column_major() } else { row_major };
        encoding.with_endian(self.endian)
    }
}

/// Parses a Python literal in the form that headers use.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The dtype of elements for which NumPy has no name.
    untyped: Option<DType>,
}

impl<'a> Scanner<'a> {
    fn dict(&mut self) -> Result<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.quoted()?;
            self.expect(":")?;
            let again = match key {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(self.wrong("'descr', 'fortran_order' or 'shape'").field(key)),
            };
            if again {
                return Err(self.wrong("every key once").field(key));
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        self.space();
        let (Some((dtype, endian)), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(self.wrong("the keys 'descr', 'fortran_order' and 'shape'"));
        };
        if self.at < self.text.len() {
            return Err(self.wrong("nothing but spaces after the dict"));
        }
        Ok(Header { dtype, endian, fortran_order, shape })
    }

    /// Parses byte order and dtype.
    fn descr(&mut self) -> Result<(DType, Endian)> {
        self.space();
        let first = self.rest().chars().next();
        if matches!(first, Some('[' | '(')) {
            return Err(Error::unsupported("a checkpoint cannot hold a structured array")
                .field("descr")
                .help("save each field as a separate array"));
        }
        let text = self.quoted()?;
        let unsupported =
            || Error::unsupported("arrays of this dtype are not supported").field("descr").found(text);
        let mut letters = text.chars();
        let (Some(order @ ('<' | '>' | '|' | '=')), Some(kind)) = (letters.next(), letters.next()) else {
            return Err(unsupported().expected("byte order, kind and size, such as '<f4'"));
        };
        let size = letters.as_str();
        if order != '>' && matches!((kind, size), ('V', "1" | "2") | ('f', "1")) {
            return self.untyped(size, unsupported()).map(|dtype| (dtype, Endian::Little));
        }
        let Some(dtype) = dtype(kind, size) else { return Err(unsupported().help(remedy(kind))) };
        match (order, dtype.component_bytes()) {
            (_, 1) | ('<', _) => Ok((dtype, Endian::Little)),
            ('>', _) => Ok((dtype, Endian::Big)),
            _ => Err(unsupported().expected("a byte order, '<' or '>', before it")),
        }
    }

    /// Returns the dtype that the user states for elements of so many bytes; else the error says how to state it.
    fn untyped(&self, size: &str, unsupported: Error) -> Result<DType> {
        let fits = |dtype: &DType| dtype.bytes().is_some_and(|bytes| bytes.to_string() == size);
        if let Some(dtype) = self.untyped.filter(fits) {
            return Ok(dtype);
        }
        let fitting = UNTYPED.iter().filter(|(_, dtype)| fits(dtype));
        let settings = fitting.map(|(name, _)| Setting::READ_OPTION.of(&format!("{OPTION}={name}")));
        Err(unsupported.help(text![
            "the file does not say what these bytes mean: NumPy writes the dtypes of ml_dtypes this way; say which it \
             is with ",
            Text::join(settings, " or "),
        ]))
    }

    fn boolean(&mut self) -> Result<bool> {
        match (self.eat("True"), self.eat("False")) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => Err(self.wrong("True or False").field("fortran_order")),
        }
    }

    /// Parses a tuple of numbers; Python 2 wrote an `L` after each.
    fn shape(&mut self) -> Result<Shape> {
        let mut dims = Vec::new();
        self.expect("(")?;
        while !self.eat(")") {
            dims.push(self.number()?);
            let comma = self.eat(",");
            if !comma && dims.len() == 1 {
                return Err(self.wrong("a tuple, such as (3,)").field("shape"));
            }
            if !comma {
                self.expect(")")?;
                break;
            }
        }
        Shape::new(dims).map_err(|error| error.field("shape"))
    }

    fn number(&mut self) -> Result<u64> {
        self.space();
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = rest.get(..digits).and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| self.wrong("a number of at most 64 bits").field("shape"))?;
        self.at += digits;
        self.eat("L");
        Ok(number)
    }

    /// Parses quoted text; headers have no escapes.
    fn quoted(&mut self) -> Result<&'a str> {
        self.space();
        let rest = self.rest();
        let mut letters = rest.chars();
        let quote = letters.next().filter(|quote| matches!(quote, '\'' | '"'));
        let inside = quote.and_then(|quote| letters.as_str().split_once(quote));
        let (inside, _) =
            inside.filter(|(inside, _)| !inside.contains('\\')).ok_or_else(|| self.wrong("a quoted text"))?;
        self.at += inside.len() + 2;
        Ok(inside)
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// Skips spaces and `token`; returns whether the token was there.
    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let follows = self.rest().starts_with(token);
        if follows {
            self.at += token.len();
        }
        follows
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.wrong(&format!("'{token}'"))) }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, expected: &str) -> Error {
        const SHOWN: usize = 24;
        let rest = self.rest();
        let found = rest.get(..SHOWN).unwrap_or(rest);
        Error::corrupt("the array's header does not follow NumPy's format")
            .found(if found.is_empty() {
                "its end".to_owned()
            } else {
                format!("\"{}\"", found.escape_debug())
            })
            .expected(expected)
    }
}

fn remedy(kind: char) -> &'static str {
    match kind {
        'O' => "objects are pickled, which runs whatever program the file holds: save arrays of numbers",
        'U' | 'S' | 'a' => "a checkpoint cannot hold strings: save them elsewhere",
        'V' => "the file does not say what these bytes mean: save arrays of numbers",
        'M' | 'm' => "save the times as integers: array.astype('int64')",
        'f' | 'c' => {
            "the format of long double depends on the machine: save array.astype('float64') or 'complex128'"
        }
        _ => "save the array as one of numbers: array.astype(...)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Header, String> {
        Header::parse(text, None).map_err(|(error, position)| format!("{position}: {error}"))
    }

    fn header(dtype: DType, endian: Endian, fortran_order: bool, shape: &[u64]) -> Header {
        Header { dtype, endian, fortran_order, shape: Shape::new(shape).unwrap() }
    }

    #[test]
    fn a_header_is_what_numpy_writes() {
        let text = header(DType::F32, Endian::Little, false, &[2, 3]).text().unwrap();
        let padded = format!("{:117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        assert_eq!(text, padded);
        let text = header(DType::Bool, Endian::Little, true, &[7]).text().unwrap();
        assert!(text.starts_with("{'descr': '|b1', 'fortran_order': True, 'shape': (7,), }"), "{text}");
        let text = header(DType::I16, Endian::Big, false, &[]).text().unwrap();
        assert!(text.starts_with("{'descr': '>i2', 'fortran_order': False, 'shape': (), }"), "{text}");
    }

    #[test]
    fn what_is_written_is_parsed_again_and_aligned() {
        // Some, where each takes seconds.
        for rank in (0..64).step_by(if cfg!(miri) { 21 } else { 1 }) {
            let shape = vec![1; rank];
            for fortran_order in [false, true] {
                let header = header(DType::C128, Endian::Big, fortran_order, &shape);
                let stored = Stored::new(header.clone()).unwrap();
                assert_eq!(parse(&stored.text), Ok(header));
                assert_eq!(stored.bytes().len() % ALIGNMENT, 0);
                assert_eq!(stored.bytes().len() as u64, stored.len());
            }
        }
    }

    #[test]
    fn elements_without_a_name_have_the_dtype_that_the_user_states_if_it_has_their_size() {
        let parse = |descr: &str, untyped| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,)}}");
            Header::parse(&text, Some(untyped)).map(|header| header.dtype).ok()
        };
        assert_eq!(parse("<V2", DType::Bf16), Some(DType::Bf16));
        for (name, dtype) in UNTYPED.iter().filter(|(_, dtype)| *dtype != DType::Bf16) {
            for descr in ["<V1", "|V1", "<f1"] {
                assert_eq!(parse(descr, *dtype), Some(*dtype), "{name}");
            }
            assert_eq!(parse("<V2", *dtype), None);
        }
        assert_eq!(parse("<f2", DType::Bf16), Some(DType::F16));
    }

    #[test]
    fn python_may_write_the_dict_in_other_ways() {
        let expected = Ok(header(DType::F64, Endian::Little, true, &[3, 4]));
        for text in [
            "{'descr':'<f8','fortran_order':True,'shape':(3,4)}",
            "{\"shape\": (3L, 4L,), \"fortran_order\": True, \"descr\": \"<f8\"}  \n",
            " { 'shape' : ( 3 , 4 ) ,\t'fortran_order' : True , 'descr' : '<f8' , } ",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn anything_but_such_a_dict_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
            "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,)}",
            "{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_dtype_that_is_no_number_is_refused_with_what_to_do() {
        for (descr, remedy) in [
            ("'|O'", "pickled"),
            ("'<U4'", "strings"),
            ("'|S4'", "strings"),
            ("'<V2'", "dtype=bfloat16"),
            ("'<V1'", "dtype=float8_e4m3fn"),
            ("'|V1'", "dtype=float8_e5m2"),
            ("'<f1'", "dtype=float8_e5m2"),
            ("'|V3'", "numbers"),
            ("'<M8[s]'", "integers"),
            ("'<f16'", "float64"),
            ("[('x', '<f4')]", "each field"),
            ("('<f4', (2,))", "each field"),
            ("'f4'", "byte order"),
            ("'|f4'", "'<' or '>'"),
            ("''", "byte order"),
        ] {
            let error =
                parse(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}")).unwrap_err();
            assert!(error.contains(remedy), "{descr}: {error}");
        }
    }
}
