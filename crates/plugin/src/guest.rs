//! Answers what the program asks, wherever the codec runs.

use ckpt_api::{
    Blocks, Codec, DecodeStream, Decoder, Error, Input, Limit, Limits, OpCall, OpSpec, OutputView,
    Parameters, ReadAt, ReadStore, Result, StoredBytes, TensorId, Values, Written,
};
use ckpt_forms::{
    Bytes, CheckpointForm, ContentsForm, DamageForm, Description, Document, ErrorForm, Function, InputForm,
    LimitsForm, LiteralForm, MatchForm, OpShapesForm, OpValuesForm, OptionsForm, OutputLayoutForm,
    WrittenForm, decode, encode, narrow,
};
use std::io::{self, Read};
use std::sync::Arc;

/// What the program gives a codec beside messages.
pub struct Surroundings {
    /// The files of the input, and those beside it.
    pub files: Arc<dyn ReadStore>,
    /// The stored bytes of a stream that is decoded, of which there are so many.
    pub stored: fn(u64) -> StoredBytes,
    /// Hands out the values of a tensor while tensors are prepared, as [`Values::numbers`] does.
    pub numbers: Numbers,
}

/// Hands out the values of a tensor.
pub type Numbers = fn(TensorId, &mut dyn FnMut(&[f32])) -> Result<()>;

/// A codec that is asked by messages.
///
/// ```
/// # use ckpt_npz_stand_in::Toy;
/// # mod ckpt_npz_stand_in {
/// #     use ckpt_api::*;
/// #     pub struct Toy;
/// #     static INFO: FormatInfo = FormatInfo::new("toy", "Toy format");
/// #     impl Codec for Toy {
/// #         fn info(&self) -> &FormatInfo { &INFO }
/// #         fn probe(&self, _: &Input) -> Result<Match> { Ok(Match::No) }
/// #         fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> { Ok(Contents::default()) }
/// #         fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> { Ok(OutputLayout::default()) }
/// #     }
/// # }
/// use ckpt_api::StoredBytes;
/// use ckpt_forms::{Description, ErrorForm, Function, decode};
/// use ckpt_plugin::{Guest, Surroundings};
/// let files = std::sync::Arc::new(std::collections::BTreeMap::new());
/// let around = Surroundings {
///     files,
///     stored: |len| StoredBytes::new(std::io::empty(), len),
///     numbers: |_, _| Ok(()),
/// };
/// let answer = Guest::new(&Toy, "0.1.0").answer(Function::Describe.number(), &[], &around);
/// let description: Result<Description, ErrorForm> = decode(&answer)?;
/// assert_eq!(description.unwrap().format.id, "toy");
/// # Ok::<(), ckpt_api::Error>(())
/// ```
pub struct Guest {
    codec: &'static dyn Codec,
    version: &'static str,
    /// The stream that was started last.
    stream: Option<Box<dyn DecodeStream>>,
    /// The input that was probed last: it has what the codec keeps for reading.
    probed: Option<(InputForm, LimitsForm, Input)>,
}

impl Guest {
    /// A codec in a plugin of this version.
    pub fn new(codec: &'static dyn Codec, version: &'static str) -> Self {
        Guest { codec, version, stream: None, probed: None }
    }

    /// Calls the function of this number with a message, and returns the message with the result: what [`Function`] states, or an
    /// [`ErrorForm`].
    pub fn answer(&mut self, function: u32, request: &[u8], around: &Surroundings) -> Vec<u8> {
        self.answered(function, request, around).unwrap_or_else(|error| {
            let refusal: Result<(), ErrorForm> = Err(ErrorForm::from(&error));
            encode(&refusal).unwrap_or_default()
        })
    }

    fn answered(&mut self, function: u32, request: &[u8], around: &Surroundings) -> Result<Vec<u8>> {
        let known = Function::from_number(function);
        match known
            .ok_or_else(|| Error::unsupported("the plugin lacks a function").found(function.to_string()))?
        {
            Function::Describe => good(Description::of(self.codec, self.version)),
            Function::Probe => {
                let (input, limits): (InputForm, LimitsForm) = decode(request)?;
                let opened = open(&input, around).within(&limits.clone().into());
                let verdict = self.codec.probe(&opened)?;
                self.probed = Some((input, limits, opened));
                good(MatchForm::from(verdict))
            }
            Function::Read => self.read(request, around),
            Function::Place => self.place(request),
            Function::Finish => self.finish(request),
            Function::DecodeBlocks => self.decode_blocks(request),
            Function::EncodeBlocks => self.encode_blocks(request),
            Function::LongestOutput => {
                let (number, stored, parameters): (u32, u64, Document<Parameters>) = decode(request)?;
                good(self.decoder(number)?.longest(stored, &parameters.0))
            }
            Function::DecodeWhole => self.decode_whole(request),
            Function::StartStream => self.start_stream(request, around),
            Function::ReadStream => self.read_stream(request),
            Function::FinishStream => {
                let stream = self.stream.as_mut().ok_or_else(no_stream)?;
                good(stream.finish().map_err(DamageForm::from))
            }
            Function::OperatorShape => {
                let (number, shapes): (u32, OpShapesForm) = decode(request)?;
                let spec = self.operator(number)?;
                good(spec.shape(&shapes.into_shapes(spec)?.shapes())?)
            }
            Function::RunOperator => self.run_operator(request),
            Function::Prepare => self.prepare(request, around),
        }
    }

    fn read(&mut self, request: &[u8], around: &Surroundings) -> Result<Vec<u8>> {
        let (input, options, limits): (InputForm, OptionsForm, LimitsForm) = decode(request)?;
        let probed = self.probed.take().filter(|(form, within, _)| *form == input && *within == limits);
        let limits = Limits::from(limits);
        let input = match probed {
            Some((.., opened)) => opened,
            None => open(&input, around).within(&limits),
        };
        let info = self.codec.info();
        let options = options.into_options(info.id, info.options, &unlimited())?;
        last(ContentsForm::from(self.codec.read(&input, &options, &limits)?))
    }

    fn place(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (checkpoint, name, options): (CheckpointForm, String, OptionsForm) = decode(request)?;
        let info = self.codec.info();
        let options = options.into_options(info.id, info.options, &unlimited())?;
        let checkpoint = kept(checkpoint.into_checkpoint(&unlimited())?);
        last(OutputLayoutForm::from(self.codec.place(&checkpoint, &name, &options)?))
    }

    fn finish(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (placed, written): (OutputLayoutForm, Vec<WrittenForm>) = decode(request)?;
        let placed = kept(placed.into_layout(&unlimited())?);
        let written: Vec<Written> = written.into_iter().map(Written::from).collect();
        let literals = self.codec.finish(&placed, &written)?;
        good(literals.into_iter().map(LiteralForm::from).collect::<Vec<_>>())
    }

    fn prepare(&self, request: &[u8], around: &Surroundings) -> Result<Vec<u8>> {
        let (input, contents, options): (InputForm, ContentsForm, OptionsForm) = decode(request)?;
        let info = self.codec.info();
        let options = options.into_options(info.id, info.options, &unlimited())?;
        let mut contents = kept(contents.into_contents(&unlimited())?);
        for placement in &mut contents.placements {
            placement.attach(self.codec.block_encodings());
            // A decoder of the source's format is not the plugin's: such bytes it cannot decode.
            placement.attach_decoders(self.codec.decoders()).unwrap_or_default();
        }
        let values = GuestValues { input: open(&input, around), numbers: around.numbers };
        last(self.codec.prepare(&values, &contents, &options)?.map(ContentsForm::from))
    }

    fn decode_blocks(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (number, blocks): (u32, Bytes) = decode(request)?;
        let mut numbers = Vec::new();
        self.blocks(number)?.decode(&blocks.0, &mut numbers)?;
        good(Bytes(numbers))
    }

    fn encode_blocks(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (number, first, numbers): (u32, u64, Bytes) = decode(request)?;
        let mut blocks = Vec::new();
        let largest = self.blocks(number)?.encode(first, &numbers.0, &mut blocks)?;
        good((largest, Bytes(blocks)))
    }

    fn decode_whole(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (number, parameters, len, stored): (u32, Document<Parameters>, u64, Bytes) = decode(request)?;
        let decoder = self.decoder(number)?;
        let mut out = vec![0; usize::try_from(len).map_err(|_| Error::limit("too large for a plugin"))?];
        let decoded = decoder.decode(&stored.0, &parameters.0, &mut out);
        good(decoded.map(|filled| (filled as u64, Bytes(out))).map_err(DamageForm::from))
    }

    fn start_stream(&mut self, request: &[u8], around: &Surroundings) -> Result<Vec<u8>> {
        let (number, parameters, len, stored): (u32, Document<Parameters>, u64, u64) = decode(request)?;
        let started = self.decoder(number)?.start((around.stored)(stored), &parameters.0, len);
        good(started.map(|stream| self.stream = Some(stream)).map_err(DamageForm::from))
    }

    fn read_stream(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let most: u32 = decode(request)?;
        let stream = self.stream.as_mut().ok_or_else(no_stream)?;
        let mut out = vec![0; usize::try_from(most).unwrap_or_default()];
        let read = loop {
            match stream.read(&mut out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map(|read| {
            out.truncate(read);
            Bytes(out)
        });
        good(read.map_err(DamageForm::from))
    }

    fn run_operator(&self, request: &[u8]) -> Result<Vec<u8>> {
        let (number, shapes, result, values): (u32, OpShapesForm, Vec<u64>, OpValuesForm) = decode(request)?;
        let spec = self.operator(number)?;
        let (shapes, result) = (shapes.into_shapes(spec)?, narrow(&result)?);
        let floats = |bytes: Vec<Bytes>| bytes.iter().map(Bytes::floats).collect::<Vec<_>>();
        let (inputs, parameters) = (floats(values.inputs), floats(values.parameters));
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let parameters: Vec<&[f64]> = parameters.iter().map(Vec::as_slice).collect();
        let mut elements =
            vec![0.0; result.iter().fold(1, |product: usize, len| product.saturating_mul(*len))];
        let call = OpCall::new(shapes.shapes(), &inputs, &parameters);
        spec.compute(&call, &mut OutputView::new(&result, &mut elements))?;
        good(Bytes::of_floats(&elements))
    }

    fn operator(&self, number: u32) -> Result<&'static OpSpec> {
        let spec = usize::try_from(number).ok().and_then(|number| self.codec.ops().get(number));
        spec.ok_or_else(|| Error::unsupported("the plugin has no such operator").found(number.to_string()))
    }

    fn blocks(&self, number: u32) -> Result<&'static Blocks> {
        let blocks = usize::try_from(number).ok().and_then(|number| self.codec.block_encodings().get(number));
        blocks.ok_or_else(|| {
            Error::unsupported("the plugin has no such block encoding").found(number.to_string())
        })
    }

    fn decoder(&self, number: u32) -> Result<&'static Decoder> {
        let decoder = usize::try_from(number).ok().and_then(|number| self.codec.decoders().get(number));
        let decoder = decoder.copied();
        decoder.ok_or_else(|| Error::unsupported("the plugin has no such decoder").found(number.to_string()))
    }
}

/// The message with a result.
fn good<T: serde::Serialize>(result: T) -> Result<Vec<u8>> {
    encode(&Ok::<T, ErrorForm>(result))
}

/// As [`good`], for a function that is called once in a module's memory.
fn last<T: serde::Serialize>(result: T) -> Result<Vec<u8>> {
    let result = Ok::<T, ErrorForm>(result);
    let message = encode(&result);
    let _ = kept(result);
    message
}

/// A value that is not dropped in a module whose memory ends with the call: an interpreter would go through every tensor of it.
fn kept<T>(value: T) -> Kept<T> {
    #[cfg(target_family = "wasm")]
    let value = std::mem::ManuallyDrop::new(value);
    value
}

#[cfg(target_family = "wasm")]
type Kept<T> = std::mem::ManuallyDrop<T>;
#[cfg(not(target_family = "wasm"))]
type Kept<T> = T;

fn open(input: &InputForm, around: &Surroundings) -> Input {
    let shown = Shown { files: Arc::clone(&around.files), before: input.shown_before.clone() };
    Input::within_store(Arc::new(shown), &input.entry)
}

/// The values of the tensors that are prepared.
struct GuestValues {
    input: Input,
    numbers: Numbers,
}

impl Values for GuestValues {
    fn input(&self) -> &Input {
        &self.input
    }

    fn numbers(&self, tensor: TensorId, each: &mut dyn FnMut(&[f32])) -> Result<()> {
        (self.numbers)(tensor, each)
    }
}

/// Files whose names people see as the program shows them.
#[derive(Debug)]
struct Shown {
    files: Arc<dyn ReadStore>,
    before: String,
}

impl ReadStore for Shown {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.files.list(directory, most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.files.directories(directory, most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.files.open(name)
    }

    fn has(&self, name: &str) -> bool {
        self.files.has(name)
    }

    /// What the user named is a file, what names begin with, or the directory itself, which has no name here.
    fn has_directory(&self, _: &str) -> bool {
        false
    }

    fn display(&self, name: &str) -> String {
        match name {
            "" => self.before.strip_suffix('/').unwrap_or(&self.before).to_owned(),
            name => format!("{}{name}", self.before),
        }
    }
}

fn no_stream() -> Error {
    Error::unsupported("no stream was started")
}

/// What the program sends has passed its limits.
fn unlimited() -> Limits {
    Limit::ALL.iter().fold(Limits::default(), |limits, limit| limits.with(*limit, u64::MAX))
}
