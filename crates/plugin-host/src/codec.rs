//! A plugin as a codec.

use super::decoders;
use super::instance::{Instance, named};
use super::module::Module;
use super::operators;
use super::pool::Pool;
use ckpt_api::{
    Blocks, Checkpoint, Codec, Contents, Decoder, Error, File, FormatInfo, Input, Kind, Limits, Literal,
    Match, OpSpec, Options, OutputLayout, Placement, Provenance, Result, Tensor, TensorId, Values, Written,
};
use ckpt_forms::{
    CheckpointForm, ContentsForm, Description, Function, InputForm, LimitsForm, LiteralForm, MatchForm,
    OptionsForm, OutputLayoutForm, WrittenForm,
};
use std::fmt;
use std::sync::Arc;

/// A codec that is a WebAssembly module.
pub struct Plugin {
    module: Arc<Module>,
    info: &'static FormatInfo,
    blocks: &'static [Blocks],
    decoders: &'static [&'static Decoder],
    ops: &'static [OpSpec],
    prepares: bool,
    provenance: Provenance,
    limits: Limits,
}

/// An instance that probed an input, and the module that it is of: a plugin keeps for reading what it parsed, as any codec may.
struct Probed {
    sha256: String,
    instance: Instance,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("id", &self.info.id).field("provenance", &self.provenance).finish()
    }
}

impl Plugin {
    /// The codec of a module, which errors call `shown`: its path, or where it comes from.
    ///
    /// What describes it (a few kilobytes) stays in memory until the process ends.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for what is no plugin of this version; [`ckpt_api::Kind::Limit`].
    pub fn load(bytes: &[u8], shown: &str) -> Result<Self> {
        Self::load_within(bytes, shown, &Limits::default())
    }

    /// As [`Plugin::load`], within limits other than the usual ones. They hold for writing and decoding, too; reading has those of
    /// its input.
    ///
    /// # Errors
    /// As [`Plugin::load`].
    pub fn load_within(bytes: &[u8], shown: &str, limits: &Limits) -> Result<Self> {
        let module = Arc::new(Module::parse(bytes, shown, limits)?);
        let name = |error: Error| named(&module, error);
        let mut instance = Instance::new(&module, None, limits)?;
        let description: Description = instance.call(Function::Describe, &())?;
        description.check().map_err(name)?;
        let Description { version, format, blocks, decoders, operators } = description;
        let info = format.into_info().map_err(name)?;
        let pool = Arc::new(Pool::new(Arc::clone(&module), limits.clone()));
        Ok(Plugin {
            info,
            blocks: decoders::blocks(blocks, &pool),
            decoders: decoders::decoders(decoders, &pool),
            ops: operators::operators(operators, &pool),
            prepares: instance.prepare.is_some(),
            provenance: Provenance::new("plugin", name_of(shown), version, module.sha256.clone()),
            limits: limits.clone(),
            module,
        })
    }

    /// The SHA-256 of the module, in lowercase hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.module.sha256
    }

    /// An instance that sees an input. Of this it has a clone with nothing kept: the input may keep the instance.
    fn instance(&self, input: &Input, limits: &Limits) -> Result<Instance> {
        Instance::new(&self.module, Some(input.clone().within(limits)), limits)
    }

    /// Checks that only tensors were replaced, and by bytes that exist; gives them decoders.
    fn check_prepared(&self, prepared: &mut Contents, contents: &Contents, input: &Input) -> Result<()> {
        let names = |contents: &Contents| {
            let tensors = contents.checkpoint.tensors.iter();
            tensors.map(|tensor| tensor.name.clone()).collect::<Vec<_>>()
        };
        let wrong = || Error::unsupported("the plugin prepares tensors wrongly");
        if names(prepared) != names(contents)
            || prepared.files != contents.files
            || prepared.placements.len() != contents.placements.len()
        {
            return Err(wrong().found("other tensors or files").expected("those that it was given"));
        }
        let mut replaced = Vec::new();
        let pairs = contents.placements.iter().zip(&contents.checkpoint.tensors);
        let new = prepared.placements.iter_mut().zip(&prepared.checkpoint.tensors);
        for (id, ((placement, tensor), (old, old_tensor))) in new.zip(pairs).enumerate() {
            self.attach(placement, (old, old_tensor));
            if placement != old || tensor != old_tensor {
                placement.attach_decoders(self.decoders).map_err(|(error, _)| error.tensor(&tensor.name))?;
                replaced.push(TensorId(id));
            }
        }
        prepared.check(&self.limits).map_err(|error| wrong().found(error.quoted()))?;
        prepared.check_data(input, replaced.into_iter()).map_err(|error| wrong().found(error.quoted()))
    }

    /// Gives a placement what no message holds: the decoders of blocks and compressed bytes, of the plugin or of the source.
    fn attach(&self, placement: &mut Placement, (old, tensor): (&Placement, &Tensor)) {
        if placement == old {
            placement.clone_from(old);
        } else {
            placement.attach(self.blocks);
            placement.attach(tensor.blocks.as_deref().map(std::slice::from_ref).unwrap_or_default());
        }
    }

    fn writer(&self) -> Result<Instance> {
        Instance::new(&self.module, None, &self.limits)
    }
}

/// The last component of a path: plans are to be the same whatever the folder.
fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl Codec for Plugin {
    fn info(&self) -> &FormatInfo {
        self.info
    }

    fn provenance(&self) -> Option<&Provenance> {
        Some(&self.provenance)
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let limits = input.limits();
        let request = (InputForm::from(input), LimitsForm::from(limits));
        let file = input.is_file().then(|| input.main()).transpose()?;
        let before = file.as_ref().and_then(File::identity);
        let mut instance = self.instance(input, limits)?;
        let verdict: MatchForm = instance.call(Function::Probe, &request)?;
        if let Some(file) = file.filter(|_| verdict != MatchForm::No) {
            input.keep(&file, before, Probed { sha256: self.module.sha256.clone(), instance });
        }
        Ok(verdict.into())
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        let request = (InputForm::from(input), OptionsForm::from(options), LimitsForm::from(limits));
        let file = input.is_file().then(|| input.main()).transpose()?;
        let probed = file.and_then(|file| input.take::<Probed>(&file));
        let mut instance = match probed.filter(|probed| probed.sha256 == self.module.sha256) {
            Some(probed) => probed.instance,
            None => self.instance(input, limits)?,
        };
        let form: ContentsForm = instance.call(Function::Read, &request)?;
        let name = |error| named(&self.module, error);
        let mut contents = form.into_contents(limits).map_err(name)?;
        for placement in &mut contents.placements {
            placement.attach(self.blocks);
            placement.attach_decoders(self.decoders).map_err(|(error, _)| name(error))?;
        }
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        let request = (CheckpointForm::from(checkpoint.clone()), name, OptionsForm::from(options));
        let form: OutputLayoutForm = self.writer()?.call(Function::Place, &request)?;
        let mut layout = form.into_layout(&self.limits).map_err(|error| named(&self.module, error))?;
        for placement in &mut layout.placements {
            placement.attach(self.blocks);
            // Blocks that the source has, of whatever format.
            let source =
                checkpoint.tensors.get(placement.tensor.0).and_then(|tensor| tensor.blocks.as_deref());
            placement.attach(source.map(std::slice::from_ref).unwrap_or_default());
        }
        layout.check(checkpoint).map_err(|error| match error.kind() {
            Kind::Defect => named(
                &self.module,
                Error::unsupported("the plugin places tensors wrongly").found(error.quoted()),
            ),
            _ => error,
        })?;
        Ok(layout)
    }

    fn prepare(
        &self,
        values: &dyn Values,
        contents: &Contents,
        options: &Options,
    ) -> Result<Option<Contents>> {
        if !self.prepares {
            return Ok(None);
        }
        let input = values.input();
        let request =
            (InputForm::from(input), ContentsForm::from(contents.clone()), OptionsForm::from(options));
        let mut instance = self.instance(input, &self.limits)?;
        let tensors = contents.checkpoint.tensors.len();
        let form: Option<ContentsForm> = instance.prepare(&request, (values, tensors))?;
        let name = |error| named(&self.module, error);
        let Some(mut prepared) =
            form.map(|form| form.into_contents(&self.limits)).transpose().map_err(name)?
        else {
            return Ok(None);
        };
        self.check_prepared(&mut prepared, contents, input).map_err(name)?;
        Ok(Some(prepared))
    }

    fn block_encodings(&self) -> &'static [Blocks] {
        self.blocks
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        self.decoders
    }

    fn ops(&self) -> &'static [OpSpec] {
        self.ops
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let written: Vec<WrittenForm> = written.iter().map(WrittenForm::from).collect();
        let request = (OutputLayoutForm::from(placed.clone()), written);
        let literals: Vec<LiteralForm> = self.writer()?.call(Function::Finish, &request)?;
        Ok(literals.into_iter().map(LiteralForm::into_literal).collect())
    }
}
