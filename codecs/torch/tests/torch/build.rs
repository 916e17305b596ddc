//! Builds files of PyTorch byte by byte, independently of the codec.

/// A value that Python pickles.
#[derive(Clone)]
pub enum Py {
    None,
    Int(u32),
    Text(&'static str),
    Tuple(Vec<Py>),
    List(Vec<Py>),
    /// A list that has one value this many times, and once more.
    Shared(Box<Py>, usize),
    Dict(Vec<(Py, Py)>),
    /// An object of a class, with its fields.
    Object(&'static str, &'static str, Vec<(&'static str, Py)>),
    Size(Vec<u32>),
    /// Row-major 32-bit floats of this shape, in the storage with this number.
    Floats(usize, Vec<u32>),
    /// The first floats of a storage with this number of elements.
    View(usize, u32, Vec<u32>),
    /// Floats of two axes, stored column-major.
    Columns(usize, [u32; 2]),
    /// 32-bit integers in place of the floats, with this scale and the zero point 3.
    Quantized(usize, Vec<u32>, f64),
}

/// The opcodes of a text.
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The pickle of a value.
pub fn pickle(value: &Py) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    write(value, &mut bytes);
    bytes.push(b'.');
    bytes
}

fn write(value: &Py, bytes: &mut Vec<u8>) {
    let all = |values: &[Py], bytes: &mut Vec<u8>| values.iter().for_each(|value| write(value, bytes));
    match value {
        Py::None => bytes.push(b'N'),
        Py::Int(number) => {
            bytes.push(b'J');
            bytes.extend(number.to_le_bytes());
        }
        Py::Text(text) => {
            bytes.push(b'X');
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Py::Tuple(values) => {
            bytes.push(b'(');
            all(values, bytes);
            bytes.push(b't');
        }
        Py::List(values) => {
            bytes.extend(b"](");
            all(values, bytes);
            bytes.push(b'e');
        }
        Py::Shared(value, times) => {
            bytes.extend(b"](");
            write(value, bytes);
            bytes.extend(b"q\xff");
            bytes.extend(b"h\xff".repeat(*times));
            bytes.push(b'e');
        }
        Py::Dict(pairs) => {
            bytes.extend(b"}(");
            for (key, value) in pairs {
                write(key, bytes);
                write(value, bytes);
            }
            bytes.push(b'u');
        }
        Py::Object(module, name, fields) => {
            bytes.extend(format!("c{module}\n{name}\n)").as_bytes());
            bytes.push(0x81);
            let pairs = fields.iter().map(|(key, value)| (Py::Text(key), value.clone())).collect();
            write(&Py::Dict(pairs), bytes);
            bytes.push(b'b');
        }
        Py::Size(sizes) => {
            bytes.extend(b"ctorch\nSize\n");
            write(&Py::Tuple(vec![tuple(sizes)]), bytes);
            bytes.push(b'R');
        }
        Py::Floats(storage, shape) => {
            write(&Py::View(*storage, shape.iter().product(), shape.clone()), bytes)
        }
        Py::View(storage, elements, shape) => {
            bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
            view("FloatStorage", *storage, *elements, shape, &dense(shape), bytes);
            bytes.extend(b"\x89NtR");
        }
        Py::Columns(storage, shape) => {
            bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
            view("FloatStorage", *storage, shape.iter().product(), shape, &[1, shape[0]], bytes);
            bytes.extend(b"\x89NtR");
        }
        Py::Quantized(storage, shape, scale) => {
            bytes.extend(b"ctorch._utils\n_rebuild_qtensor\n(");
            view("QInt32Storage", *storage, shape.iter().product(), shape, &dense(shape), bytes);
            bytes.extend(b"(ctorch\nper_tensor_affine\nG");
            bytes.extend(scale.to_be_bytes());
            bytes.extend(b"K\x03t\x89NtR");
        }
    }
}

/// The strides of a row-major tensor.
fn dense(shape: &[u32]) -> Vec<u32> {
    (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect()
}

/// Storage, offset, shape and strides of a tensor.
fn view(class: &str, storage: usize, elements: u32, shape: &[u32], strides: &[u32], bytes: &mut Vec<u8>) {
    bytes.extend(b"(X\x07\0\0\0storagectorch\n");
    bytes.extend(format!("{class}\n").as_bytes());
    let key: &'static str = storage.to_string().leak();
    [Py::Text(key), Py::Text("cpu"), Py::Int(elements)].iter().for_each(|value| write(value, bytes));
    bytes.extend(b"tQK\0");
    [tuple(shape), tuple(strides)].iter().for_each(|value| write(value, bytes));
}

fn tuple(numbers: &[u32]) -> Py {
    Py::Tuple(numbers.iter().map(|number| Py::Int(*number)).collect())
}

/// A dict with texts as keys.
pub fn dict(pairs: Vec<(&'static str, Py)>) -> Py {
    Py::Dict(pairs.into_iter().map(|(key, value)| (Py::Text(key), value)).collect())
}

/// A file of `torch.save`: a value, and the numbers of its storages.
pub fn saved(value: &Py, storages: &[Vec<f32>]) -> Vec<u8> {
    saved_pickle(&pickle(value), storages)
}

/// A file of `torch.save` with this pickle.
pub fn saved_pickle(pickle: &[u8], storages: &[Vec<f32>]) -> Vec<u8> {
    let mut records = vec![("archive/data.pkl".to_owned(), pickle.to_vec())];
    for (number, storage) in storages.iter().enumerate() {
        let bytes = storage.iter().flat_map(|number| number.to_le_bytes()).collect();
        records.push((format!("archive/data/{number}"), bytes));
    }
    records.push(("archive/version".to_owned(), b"3\n".to_vec()));
    zip(&records)
}

/// An archive of stored members.
fn zip(records: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in records {
        let at = bytes.len() as u32;
        let mut common = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc32fast::hash(data).to_le_bytes());
        common.extend([data.len() as u32; 2].map(u32::to_le_bytes).concat());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), data].concat());
        let rest = [&[0; 10][..], &at.to_le_bytes()].concat();
        directory.extend([b"PK\x01\x02\0\0", &common[..], &rest, name.as_bytes()].concat());
    }
    let (start, count) = (bytes.len() as u32, (records.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].concat());
    bytes.extend([(directory.len() as u32).to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

/// An archive as PyTorch writes it, whose records begin on multiples of `alignment`.
pub fn archive(records: &[(&str, &[u8])], alignment: usize) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in records {
        let at = bytes.len() as u32;
        let flags = if data.is_empty() { 0x0800u16 } else { 0x0808 };
        let (name_len, crc, len) =
            ((name.len() as u16).to_le_bytes(), crc32fast::hash(data), data.len() as u32);
        let sums = [crc.to_le_bytes(), len.to_le_bytes(), len.to_le_bytes()].concat();
        let padding = (bytes.len() + 30 + name.len() + 4).wrapping_neg() % alignment;
        let fixed = [&[0, 0][..], &flags.to_le_bytes(), &[0; 6]].concat();
        bytes.extend([b"PK\x03\x04", &fixed[..], &[0; 12], &name_len].concat());
        bytes.extend((padding as u16 + 4).to_le_bytes());
        bytes.extend(
            [name.as_bytes(), b"FB", &(padding as u16).to_le_bytes(), &vec![b'Z'; padding], data].concat(),
        );
        if !data.is_empty() {
            bytes.extend([b"PK\x07\x08", &sums[..]].concat());
        }
        directory.extend([b"PK\x01\x02\0\0", &fixed[..], &sums, &name_len, &[0; 12]].concat());
        directory.extend([&at.to_le_bytes(), name.as_bytes()].concat());
    }
    let (start, size, count) = (bytes.len() as u64, directory.len() as u64, records.len() as u64);
    bytes.extend(&directory);
    let at = bytes.len() as u64;
    let numbers = [count, count, size, start].map(u64::to_le_bytes).concat();
    bytes.extend([b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x1e\x03\x2d\0\0\0\0\0\0\0\0\0", &numbers[..]].concat());
    bytes.extend([b"PK\x06\x07\0\0\0\0", &at.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    let counts = [count as u16; 2].map(u16::to_le_bytes).concat();
    let places = [size as u32, start as u32].map(u32::to_le_bytes).concat();
    bytes.extend([b"PK\x05\x06\0\0\0\0", &counts[..], &places, &[0, 0]].concat());
    bytes
}
