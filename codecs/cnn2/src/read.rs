//! Reading: header and layer table; whether the weights of each layer lie where they must.

use crate::format::{
    self, AXES, KEY_MIP, KEY_PAD, KEY_VERSION, LAYER_BYTES, LayerShape, MAGIC, Pad, Version, WEIGHT_BYTES,
    weight_name,
};
use crate::graph::{self, Stated};
use ckpt_api::{
    Contents, DType, Encoding, Error, Extent, File, FileId, Input, Limit, Limits, Match, Options, Placement,
    Result, Rules, Shape, Tensor, TensorId,
};

/// Certain where magic number, version and number of layers fit; a magic number alone could be four bytes of weights.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let Some(magic) = input.head()? else { return Ok(Match::No) };
    if magic == swapped_magic() {
        return Ok(Match::Possible("begins with the magic number CNN2 in big-endian byte order".to_owned()));
    }
    if magic != MAGIC {
        return Ok(Match::No);
    }
    let possible = |what: &str| Match::Possible(format!("begins with the magic number CNN2, but {what}"));
    let file = input.main()?;
    if file.len() < Version::One.header_bytes() {
        return Ok(possible("has no whole header"));
    }
    let [version, layers] = numbers(&file, 4)?;
    let Some(version) = Version::from_number(version) else {
        return Ok(possible(&format!("its version would be {version}")));
    };
    let table = u64::from(layers).saturating_mul(LAYER_BYTES).saturating_add(version.header_bytes());
    Ok(if layers == 0 || table > file.len() {
        possible(&format!("has no room for {layers} layers"))
    } else {
        let number = version.number();
        Match::Certain(format!("begins with the magic number CNN2, version {number}, {layers} layers"))
    })
}

/// Reads everything but the weights.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a CNN2 file", |file| read_file(file, options, limits))
}

fn read_file(file: &File, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut rules = Rules { lenient: options.flag("lenient"), ..Rules::default() };
    let header = Header::read(file)?;
    let entries = header.entries(file, limits)?;
    for (index, entry) in entries.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|before| entries.get(before));
        let previous = previous.map(|entry| entry.shape.outputs);
        entry.check(previous, header.weights, &mut rules)?;
    }
    refuse_overlaps(&entries)?;
    check_order(&entries, &header, &mut rules)?;
    let pad = header.check_end(file, &mut rules)?;
    let stated = Stated::parse(options, entries.len())?;
    let mut contents = describe(&entries, &header)?;
    let shapes: Vec<LayerShape> = entries.iter().map(|entry| entry.shape).collect();
    contents.checkpoint.graph = graph::build(&shapes, &stated);
    contents.notes.extend(stated.note().filter(|_| contents.checkpoint.graph.is_some()));
    contents.repairs = rules.repairs;
    let metadata = &mut contents.checkpoint.metadata;
    metadata.insert(format::ID, KEY_VERSION, header.version.number());
    metadata.insert(format::ID, KEY_MIP, header.mip);
    if let Some(pad) = pad {
        metadata.insert(format::ID, KEY_PAD, pad.name());
    }
    Ok(contents)
}

struct Header {
    version: Version,
    layers: u64,
    /// `total_weights`.
    weights: u64,
    mip: u32,
    /// Where the weights begin.
    data: u64,
}

impl Header {
    fn read(file: &File) -> Result<Self> {
        let magic = file.bytes(0, MAGIC.len() as u64).map_err(|error| error.field("magic"))?;
        check_magic(&magic)?;
        let [number] = numbers(file, 4).map_err(|error| error.field("version"))?;
        let version = Version::from_number(number).ok_or_else(|| {
            let swapped = Version::from_number(number.swap_bytes()).is_some();
            let found = if swapped { format!("{number:#010x}") } else { number.to_string() };
            Error::unsupported("unknown version of the CNN2 format")
                .field("version")
                .offset(4)
                .found(found)
                .expected("1 or 2, little-endian")
        })?;
        let [layers, weights] = numbers(file, 8).map_err(|error| error.field("header"))?;
        let mip = match version {
            Version::One => 0,
            Version::Two => mip(file)?,
        };
        let layers = u64::from(layers);
        let start = version.header_bytes();
        let table = layers.saturating_mul(LAYER_BYTES);
        let left = file.len().saturating_sub(start);
        if layers == 0 || table > left {
            let message = if layers == 0 { "the file has no layers" } else { "the layer table is cut short" };
            return Err(Error::corrupt(message)
                .field("num_layers")
                .offset(8)
                .found(format!("{layers} layers, and {left} bytes after the header"))
                .expected("at least 1, and 20 bytes for each"));
        }
        Ok(Header { version, layers, weights: u64::from(weights), mip, data: start.saturating_add(table) })
    }

    fn entries(&self, file: &File, limits: &Limits) -> Result<Vec<Entry>> {
        limits.check(Limit::Tensors, self.layers).map_err(|error| error.field("num_layers").offset(8))?;
        let start = self.version.header_bytes();
        let table = file.bytes(start, self.data.saturating_sub(start))?;
        let (entries, _) = table.as_chunks::<20>();
        let at = |index: usize| start.saturating_add((index as u64).saturating_mul(LAYER_BYTES));
        Ok(entries.iter().enumerate().map(|(index, bytes)| Entry::parse(index, at(index), bytes)).collect())
    }

    /// What follows an odd number of weights; `None` for an even one.
    fn check_end(&self, file: &File, rules: &mut Rules) -> Result<Option<Pad>> {
        let end = |pad: Pad| pad.data_bytes(self.weights).and_then(|len| len.checked_add(self.data));
        let too_large = || Error::corrupt("the weights end beyond 2^64 bytes").field("total_weights");
        let bare = end(Pad::None).ok_or_else(too_large)?;
        let padded = end(Pad::Zero).ok_or_else(too_large)?;
        if file.len() < bare {
            return Err(Error::corrupt("the file is cut short: it ends before the weights do")
                .field("total_weights")
                .offset(12)
                .found(format!("a file of {} bytes", file.len()))
                .expected(format!("{bare} bytes for {} weights", self.weights))
                .help("copy the file again"));
        }
        let pad = if file.len() >= padded { Pad::Zero } else { Pad::None };
        if pad == Pad::Zero && padded > bare {
            let padding = file.bytes(bare, WEIGHT_BYTES)?;
            if padding != [0, 0] {
                let error = Error::corrupt("the padding after an odd number of weights is not zero")
                    .offset(bare)
                    .found(format!("{padding:02x?}"))
                    .expected("[00, 00]");
                rules.mend("padding", "it is read as zero", error)?;
            }
        }
        let end = if pad == Pad::Zero { padded } else { bare };
        let rest = file.len().saturating_sub(end);
        if rest > 0 {
            let error = Error::corrupt("there are bytes after the weights")
                .offset(end)
                .found(format!("{rest} more bytes"))
                .expected("the end of the file");
            rules.mend("end of the file", &format!("the last {rest} bytes are left out"), error)?;
        }
        Ok((padded > bare).then_some(pad))
    }
}

fn swapped_magic() -> [u8; MAGIC.len()] {
    let mut magic = MAGIC;
    magic.reverse();
    magic
}

fn check_magic(magic: &[u8]) -> Result<()> {
    if magic == MAGIC {
        return Ok(());
    }
    let found = format!("\"{}\"", magic.escape_ascii());
    let error = if magic == swapped_magic() {
        Error::unsupported("the file is in big-endian byte order, and CNN2 is little-endian").help(
            "reverse the four bytes of every number of the header and the table, and the two of every weight",
        )
    } else {
        Error::corrupt("not a CNN2 file")
    };
    Err(error.field("magic").offset(0).found(found).expected("\"CNN2\""))
}

fn mip(file: &File) -> Result<u32> {
    let [level] = numbers(file, 16).map_err(|error| error.field("mip_level"))?;
    format::mip(level).ok_or_else(|| {
        Error::corrupt("there is no such mip level")
            .field("mip_level")
            .offset(16)
            .found(level.to_string())
            .expected("0 to 3")
    })
}

/// Consecutive little-endian u32.
fn numbers<const N: usize>(file: &File, offset: u64) -> Result<[u32; N]> {
    let mut bytes = [[0; 4]; N];
    file.read_at(offset, bytes.as_flattened_mut())?;
    Ok(bytes.map(u32::from_le_bytes))
}

/// One entry of the layer table.
struct Entry {
    index: usize,
    /// Where the entry is.
    at: u64,
    shape: LayerShape,
    /// First weight, counted from the first of the file.
    start: u64,
    /// `weight_count`.
    weights: u64,
}

impl Entry {
    fn parse(index: usize, at: u64, bytes: &[u8; 20]) -> Self {
        let (numbers, _) = bytes.as_chunks::<4>();
        let number = |k: usize| numbers.get(k).map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let shape = LayerShape { kernel: number(0), inputs: number(1), outputs: number(2) };
        Entry { index, at, shape, start: number(3), weights: number(4) }
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.weights)
    }

    /// Names the entry in an error.
    fn place(&self, error: Error, field: &str) -> Error {
        error.field(format!("layers[{}].{field}", self.index)).offset(self.at).tensor(weight_name(self.index))
    }

    /// Checks all that an entry says by itself and of the one before it.
    fn check(&self, previous: Option<u64>, total: u64, rules: &mut Rules) -> Result<()> {
        for breach in self.shape.breaches(previous) {
            let error = Error::corrupt(breach.rule).found(breach.found).expected(breach.expected);
            let error = self.place(error, breach.field);
            if breach.fatal {
                return Err(error);
            }
            rules.mend(weight_name(self.index), "the tensors are read, and there is no graph", error)?;
        }
        let LayerShape { kernel, inputs, outputs } = self.shape;
        if self.shape.weights() != Some(self.weights) {
            let expected =
                self.shape.weights().map_or("fewer than 2^64".to_owned(), |weights| weights.to_string());
            let error = Error::corrupt("the number of weights does not fit the layer")
                .found(self.weights.to_string())
                .expected(format!("{expected}: {outputs} · {inputs} · {kernel} · {kernel}"));
            return Err(self.place(error, "weight_count"));
        }
        if self.end() > total {
            let error = Error::corrupt("the layer's weights reach beyond the file's")
                .found(format!("weights {} to {}", self.start, self.end()))
                .expected(format!("at most total_weights, {total}"));
            return Err(self.place(error, "weight_offset"));
        }
        Ok(())
    }
}

fn refuse_overlaps(entries: &[Entry]) -> Result<()> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.start);
    match sorted.windows(2).find(|pair| matches!(pair, [a, b] if b.start < a.end())) {
        Some([a, b]) => {
            let error = Error::corrupt("two layers share weights")
                .found(format!("{} from weight {}", weight_name(b.index), b.start))
                .expected(format!("none before {}, where {} ends", a.end(), weight_name(a.index)));
            Err(b.place(error, "weight_offset"))
        }
        _ => Ok(()),
    }
}

/// Weights follow each other in the order of the table, and none lies between or behind.
fn check_order(entries: &[Entry], header: &Header, rules: &mut Rules) -> Result<()> {
    let mut next = 0;
    for entry in entries {
        if entry.start != next {
            let error = Error::corrupt("the layer's weights do not follow those of the layer before")
                .found(entry.start.to_string())
                .expected(next.to_string());
            let error = entry.place(error, "weight_offset");
            rules.mend(weight_name(entry.index), "they are read from where the table says", error)?;
        }
        next = entry.end();
    }
    let last = entries.iter().map(Entry::end).max().unwrap_or(0);
    if last < header.weights {
        let unused = header.weights.saturating_sub(last);
        let error = Error::corrupt("there are weights after the last layer's")
            .field("total_weights")
            .offset(12)
            .found(header.weights.to_string())
            .expected(last.to_string());
        rules.mend("total_weights", &format!("the last {unused} weights are left out"), error)?;
    }
    Ok(())
}

fn describe(entries: &[Entry], header: &Header) -> Result<Contents> {
    let mut contents = Contents::default();
    for entry in entries {
        let shape = Shape::new(entry.shape.dims())?;
        let tensor = Tensor::new(weight_name(entry.index), DType::F16, shape).with_axes(AXES);
        let extent = Extent {
            file: FileId(0),
            offset: header.data.saturating_add(entry.start.saturating_mul(WEIGHT_BYTES)),
            len: entry.weights.saturating_mul(WEIGHT_BYTES),
            region: None,
            checksum: None,
        };
        let id = TensorId(entry.index);
        let encoding = Encoding::row_major(&tensor);
        contents.placements.push(Placement::new(id, tensor.name.clone(), vec![extent], encoding));
        contents.checkpoint.tensors.push(tensor);
    }
    Ok(contents)
}
