//! The primitives of a file: integers, floats and texts, as bytes or as ASCII.

use ckpt_api::fields::{Bytes, Parsed, le};
use ckpt_api::{Error, Fields, File, Limit, Limits, Result};
use nom::Parser;
use nom::bytes::streaming::{take_while, take_while1};
use nom::sequence::preceded;

/// Digits of the longest number that is one.
const MOST_DIGITS: usize = 64;

/// How a file stores primitives, which nothing in it states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Little-endian, with a `long` of so many bytes: 8, or 4 on Windows and on machines of 32 bits.
    Binary {
        /// Bytes of a `long`.
        long: u64,
    },
    /// Numbers in decimal, with a space or a line's end after each.
    Ascii,
}

impl Mode {
    /// Bytes of a `long`; 8 in ASCII, where it has as many digits as it needs.
    pub fn long(self) -> u64 {
        match self {
            Mode::Binary { long } => long,
            Mode::Ascii => 8,
        }
    }
}

/// Reads primitives, front to back.
pub(crate) struct Scanner<'a> {
    fields: Fields<'a>,
    mode: Mode,
    limits: &'a Limits,
    /// Bytes of the texts so far.
    text_bytes: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(file: &'a File, mode: Mode, limits: &'a Limits) -> Self {
        Scanner { fields: Fields::new(file), mode, limits, text_bytes: 0 }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn position(&self) -> u64 {
        self.fields.position()
    }

    /// Bytes left, without the space that ends a file in ASCII.
    pub(crate) fn rest(&mut self) -> Result<u64> {
        while self.mode == Mode::Ascii && self.fields.remaining() > 0 {
            let [byte] = self.fields.parse(ckpt_api::fields::array::<1>)?;
            if !byte.is_ascii_whitespace() {
                return Ok(self.fields.remaining().saturating_add(1));
            }
        }
        Ok(self.fields.remaining())
    }

    pub(crate) fn int(&mut self) -> Result<i32> {
        match self.mode {
            Mode::Binary { .. } => self.fields.parse(le::<i32>),
            Mode::Ascii => self.decimal("an integer of 32 bits"),
        }
    }

    pub(crate) fn long(&mut self) -> Result<i64> {
        match self.mode {
            Mode::Binary { long: 4 } => self.fields.parse(le::<i32>).map(i64::from),
            Mode::Binary { .. } => self.fields.parse(le::<i64>),
            Mode::Ascii => self.decimal("an integer"),
        }
    }

    pub(crate) fn double(&mut self) -> Result<f64> {
        match self.mode {
            Mode::Binary { .. } => self.fields.parse(le::<f64>),
            Mode::Ascii => self.decimal("a number"),
        }
    }

    /// A count: an integer that is not negative.
    pub(crate) fn count(&mut self, what: &'static str) -> Result<u64> {
        let start = self.position();
        let number = self.int()?;
        u64::try_from(number).map_err(|_| negative(what, number.into(), start))
    }

    /// The bytes of a text, which its length precedes.
    pub(crate) fn text(&mut self) -> Result<Vec<u8>> {
        let len = self.count("the length of a text")?;
        self.raw(len)
    }

    /// So many bytes of a text.
    pub(crate) fn raw(&mut self, len: u64) -> Result<Vec<u8>> {
        if len > self.fields.remaining() {
            return self.fields.skip(len).map(|()| Vec::new());
        }
        self.text_bytes = self.text_bytes.saturating_add(len);
        self.limits.check(Limit::HeaderBytes, self.text_bytes)?;
        let text = self.fields.bytes(len)?;
        self.line_end(len)?;
        Ok(text)
    }

    /// Skips the bytes of a function.
    pub(crate) fn skip_text(&mut self) -> Result<()> {
        let len = self.count("the length of a function")?;
        self.skip(len)?;
        self.line_end(len)
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.fields.skip(len)
    }

    /// Skips the end of the line after so many raw bytes: none, after none.
    pub(crate) fn line_end(&mut self, len: u64) -> Result<()> {
        if self.mode != Mode::Ascii || len == 0 {
            return Ok(());
        }
        let start = self.position();
        let [byte] = self.fields.parse(ckpt_api::fields::array::<1>)?;
        match byte {
            b'\n' => Ok(()),
            _ => Err(Error::corrupt("a text or raw data goes on behind its length")
                .offset(start)
                .found(format!("byte {byte}"))
                .expected("the end of a line")),
        }
    }

    /// Skips a number in ASCII; returns the first byte of it and the one behind it.
    pub(crate) fn skip_number(&mut self) -> Result<(u64, u64)> {
        let len = self.fields.parse(|input| word(input).map(|(rest, word)| (rest, word.as_slice().len())))?;
        // A space was parsed behind it.
        let end = self.position();
        Ok((end.saturating_sub(len as u64).saturating_sub(1), end))
    }

    fn decimal<T: std::str::FromStr>(&mut self, what: &'static str) -> Result<T> {
        let start = self.position();
        let number = self.fields.parse(|input| {
            let (rest, word) = word(input)?;
            let text = std::str::from_utf8(word.as_slice()).unwrap_or_default();
            Ok((rest, text.parse::<T>().map_err(|_| text.to_owned())))
        })?;
        number.map_err(|text| {
            Error::corrupt("a number in ASCII is none")
                .offset(start)
                .found(format!("'{}'", text.escape_debug()))
                .expected(what)
        })
    }
}

/// Parses what is between two spaces, and the end of a line behind it.
fn word(input: Bytes<'_>) -> Parsed<'_, Bytes<'_>> {
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    let (rest, word) =
        preceded(take_while(is_space), take_while1(|byte: u8| !is_space(byte))).parse(input)?;
    match word.as_slice().len() {
        0..=MOST_DIGITS => Ok((nom::Input::take_from(&rest, 1), word)),
        len => Err(nom::Err::Failure(
            Error::corrupt("a number in ASCII has too many digits")
                .offset(word.offset())
                .found(ckpt_api::count(len, "byte"))
                .expected(format!("at most {MOST_DIGITS}")),
        )),
    }
}

/// The error for a number that counts, and is negative.
pub(crate) fn negative(what: &'static str, number: i64, offset: u64) -> Error {
    Error::corrupt(format!("{what} is negative"))
        .offset(offset)
        .found(number.to_string())
        .expected("0 or more")
}
