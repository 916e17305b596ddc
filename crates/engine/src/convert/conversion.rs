//! The settings of a conversion.

use crate::mapping::Mapping;
use crate::plan::{Cloning, Policy};
use crate::recipe::Transform;
use crate::resources::Resources;
use ckpt_api::{ArchitectureFile, DType, Limits};

/// What to convert to, and how.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let memory = ckpt::store::MemoryStore::new();
/// let conversion = ckpt::Conversion::new().to("safetensors").exclude("**/bias");
/// let summary = ckpt::convert_with("examples/data/digits", memory.at("kernels"), &conversion)?;
/// assert_eq!(summary.tensors, 13);
/// # Ok(())
/// # }
/// ```
///
/// In three steps, to look at the plan before anything is written:
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// # let memory = ckpt::store::MemoryStore::new();
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::open("examples/data/digits")?;
/// let planned = ckpt::Conversion::new().plan(&registry, &source, memory.at("digits.safetensors"))?;
/// println!("{} tensors, {} losses", planned.plan().tensors().len(), planned.plan().losses.len());
/// let summary = planned.execute(&Default::default(), &|_bytes| ())?;
/// assert_eq!(memory.names(), ["digits.safetensors"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Conversion {
    /// The target's format; by the output's extension where it is left out.
    pub to: Option<String>,
    /// Options for the codec that writes.
    pub options: Vec<(String, String)>,
    /// An architecture file of the target's format, for what the source does not record.
    pub architecture: Option<ArchitectureFile>,
    /// New names for the tensors.
    pub mapping: Option<Mapping>,
    /// Where to write the program of a generated mapping, such as PyTorch modules: a name beside the output.
    pub code: Option<String>,
    /// What happens to the axes of tensors, by their names after mapping.
    pub transforms: Vec<Transform>,
    /// [Patterns](crate::pattern) of the tensors to keep; empty for all tensors.
    pub include: Vec<String>,
    /// [Patterns](crate::pattern) of the tensors to leave out.
    pub exclude: Vec<String>,
    /// What floating-point weights become.
    pub dtype: Option<DType>,
    /// Carry the tensors that are stored for quantized weights, and not the numbers that they stand for.
    pub keep_quantized: bool,
    /// Which losses are accepted.
    pub policy: Policy,
    /// Memory and threads.
    pub resources: Resources,
    /// Bounds for the mapping.
    pub limits: Limits,
    /// Writes a directory, as other programs open a model: the output's name is that of the directory. Default: if the source
    /// is a model, and the name has no extension that a format claims.
    pub directory: bool,
    /// What the main file of a directory is called. Default: as other programs look for it.
    pub main_file: Option<String>,
    /// Replace existing output.
    pub overwrite: bool,
    /// Go on with the same conversion where a process that was killed had left it: what it had written is kept as far
    /// as its checksums are right. Where it was another conversion, or the source has changed since, begin anew.
    pub resume: bool,
    /// Read the output back through its own codec, compare every tensor with its source, and run both graphs on the
    /// same inputs where both sides record one, before it gets its name.
    pub verify: bool,
    /// Whether the output shares blocks with the source's files, where the file system can.
    pub clone: Cloning,
    /// Do not compare the checksums that the source has, nor keep any of what was written: for a source that was checked
    /// just before. A killed conversion that did this begins anew. Checksums that the target stores are computed.
    pub unchecked: bool,
    /// Where to write what was done, with the hashes of all files: the last file that appears.
    pub receipt: Option<std::path::PathBuf>,
}
