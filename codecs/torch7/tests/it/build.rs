//! Files made value by value, as `torch.save` writes them.

use ckpt_api::{Contents, Input, Limits, Result};
use ckpt_torch7::Torch7;

/// Writes values of a binary file with longs of 8 bytes.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    objects: i32,
}

impl Writer {
    pub fn int(&mut self, number: i32) -> &mut Self {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    pub fn long(&mut self, number: i64) -> &mut Self {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    /// A text without its type.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.int(i32::try_from(text.len()).unwrap());
        self.bytes.extend(text.as_bytes());
        self
    }

    pub fn number(&mut self, number: f64) -> &mut Self {
        self.int(1);
        self.bytes.extend(number.to_le_bytes());
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.int(2).raw(text)
    }

    pub fn flag(&mut self, is: bool) -> &mut Self {
        self.int(5).int(i32::from(is))
    }

    /// An object that the file has already.
    pub fn again(&mut self, tag: i32, number: i32) -> &mut Self {
        self.int(tag).int(number)
    }

    /// Begins a table of so many keys with their values; returns its number.
    pub fn table(&mut self, pairs: usize) -> i32 {
        self.objects += 1;
        let number = self.objects;
        self.int(3).int(number).int(i32::try_from(pairs).unwrap());
        number
    }

    /// Begins an object of a class; returns its number.
    pub fn object(&mut self, class: &str) -> i32 {
        self.objects += 1;
        let number = self.objects;
        self.int(4).int(number).raw("V 1").raw(class);
        number
    }

    pub fn longs(&mut self, numbers: &[i64]) -> &mut Self {
        self.object("torch.LongStorage");
        self.long(i64::try_from(numbers.len()).unwrap());
        for number in numbers {
            self.long(*number);
        }
        self
    }

    /// A tensor of floats 0, 1, 2, …; returns its number.
    pub fn floats(&mut self, shape: &[u64]) -> i32 {
        let count = shape.iter().product::<u64>();
        let strides: Vec<i64> = (1..=shape.len())
            .map(|axis| i64::try_from(shape[axis..].iter().product::<u64>()).unwrap())
            .collect();
        let number = self.view(shape, &strides);
        self.object("torch.FloatStorage");
        self.long(i64::try_from(count).unwrap());
        for number in 0..u16::try_from(count).unwrap() {
            self.bytes.extend(f32::from(number).to_le_bytes());
        }
        number
    }

    /// What is before the storage of a tensor of floats.
    pub fn view(&mut self, shape: &[u64], strides: &[i64]) -> i32 {
        let number = self.object("torch.FloatTensor");
        self.int(i32::try_from(shape.len()).unwrap());
        for number in shape.iter().map(|len| i64::try_from(*len).unwrap()).chain(strides.iter().copied()) {
            self.long(number);
        }
        self.long(1);
        number
    }

    pub fn file(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

/// A field of a layer.
pub enum Field<'a> {
    Number(f64),
    Flag(bool),
    Longs(&'a [i64]),
    Floats(&'a [u64]),
    Modules(Vec<Layer<'a>>),
}

/// A layer: its class, and its fields.
pub type Layer<'a> = (&'a str, Vec<(&'a str, Field<'a>)>);

/// Writes a layer with those in it.
pub fn layer(writer: &mut Writer, (class, fields): &Layer<'_>) {
    writer.object(class);
    writer.table(fields.len());
    for (name, field) in fields {
        writer.text(name);
        match field {
            Field::Number(number) => drop(writer.number(*number)),
            Field::Flag(is) => drop(writer.flag(*is)),
            Field::Longs(numbers) => drop(writer.longs(numbers)),
            Field::Floats(shape) => drop(writer.floats(shape)),
            Field::Modules(layers) => {
                writer.table(layers.len());
                for (number, own) in (1u8..).zip(layers) {
                    writer.number(number.into());
                    layer(writer, own);
                }
            }
        }
    }
}

pub fn input(bytes: Vec<u8>) -> Input {
    Input::memory("m.t7", [("m.t7".to_owned(), bytes)].into())
}

pub fn read(bytes: Vec<u8>) -> Result<(Contents, Vec<Vec<u8>>)> {
    let (contents, values) = ckpt_conformance::read(&Torch7, &input(bytes), &[])?;
    contents.check(&Limits::default())?;
    Ok((contents, values))
}
