//! The trait of devices.

use crate::{Array, Element, Kernel, ReferenceCall};
use ckpt_api::{Error, Result};
use serde::{Deserialize, Serialize};

/// A device that runs kernels on its own buffers.
///
/// # For implementers
/// - A kernel that the device cannot run is an error; nothing falls back to another device.
/// - The caller passes operands in the order and of the types that the [`Kernel`] states, indices within their range,
///   and an output that is not an operand.
/// - The feature `conformance` has test cases for every kernel, with the [`Cpu`](crate::Cpu) as the reference.
pub trait Backend {
    /// Describes the hardware and how it computes.
    fn info(&self) -> &DeviceInfo;

    /// Returns the types in which real numbers are stored and computed.
    fn arithmetic(&self) -> Arithmetic;

    /// Copies values to the device. Real numbers must be of type [`Arithmetic::element`].
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if they do not fit.
    fn upload(&mut self, values: &Array) -> Result<BufferId>;

    /// Moves values to the device, as [`Backend::upload`] copies them.
    ///
    /// # Errors
    /// As [`Backend::upload`].
    fn upload_owned(&mut self, values: Array) -> Result<BufferId> {
        self.upload(&values)
    }

    /// Creates a buffer of zeros.
    ///
    /// # Errors
    /// As [`Backend::upload`].
    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId>;

    /// Computes `output` from `operands`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a kernel that the device does not have; whatever the device reports. The
    /// caller adds the node's name.
    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()>;

    /// Computes `output` by the reference implementation of an operator that a codec registers.
    ///
    /// The [`Cpu`](crate::Cpu) does. A device does not: it has kernels only.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a device; whatever the implementation reports. The caller adds the node's
    /// name.
    fn run_reference(&mut self, call: &ReferenceCall, operands: &[BufferId], output: BufferId) -> Result<()> {
        let _ = (operands, output);
        Err(Error::unsupported("this device has no kernel for the layer's operator")
            .found(format!("{} on {}", call.name(), self.info()))
            .help(
                "run the graph on the CPU, which has a reference implementation of every registered operator",
            ))
    }

    /// Copies values back to the host.
    ///
    /// # Errors
    /// Whatever the device reports, also for kernels that ran before.
    fn download(&mut self, buffer: BufferId) -> Result<Array>;

    /// Frees a buffer.
    fn free(&mut self, buffer: BufferId);
}

/// Returns the error of a device that has no kernel for what a layer computes.
pub fn not_on_device(kernel: &Kernel) -> Error {
    let function = kernel.function().map(|function| format!(", function {function}"));
    Error::unsupported("this device has no kernel for what the layer computes")
        .found(format!("kernel {}{}", kernel.name(), function.unwrap_or_default()))
        .help("run the graph on the CPU, which has every kernel")
}

/// A buffer on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// The types in which real numbers are stored and computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// Stored and computed in binary64: the oracle.
    #[default]
    F64,
    /// Stored and computed in binary32, sums in the order that a kernel states: GPUs are compared with it bit for bit.
    F32,
    /// Stored in binary32, computed in binary64.
    F32InF64,
}

impl Arithmetic {
    /// Returns the type of real numbers in buffers.
    pub fn element(self) -> Element {
        match self {
            Arithmetic::F64 => Element::F64,
            Arithmetic::F32 | Arithmetic::F32InF64 => Element::F32,
        }
    }

    /// Returns the name in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::F64 => "f64",
            Arithmetic::F32 => "f32",
            Arithmetic::F32InF64 => "f32-in-f64",
        }
    }
}

/// Description of a device, for people and reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceInfo {
    /// The programming interface: `cpu`, `cuda`, `metal`, `vulkan`.
    pub api: String,
    /// Name of the adapter, as its driver reports it.
    pub device: String,
    /// Whether the adapter is software that runs on a CPU.
    pub software: bool,
    /// How strictly it follows the operations of the kernels.
    pub math: MathMode,
    /// The types in which real numbers are stored and computed.
    pub arithmetic: Arithmetic,
}

/// How strictly a device follows the operations of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MathMode {
    /// Each operation is rounded as stated.
    Strict,
    /// A multiplication and an addition may be fused, and rounded once.
    Contracted,
    /// The driver may reorder and approximate.
    Fast,
}

impl DeviceInfo {
    /// Whether it is the CPU that computes in binary32 and rounds each operation: its bits are those that all devices are
    /// compared with.
    pub fn is_reference(&self) -> bool {
        self.api == "cpu" && self.arithmetic == Arithmetic::F32 && self.math == MathMode::Strict
    }
}

impl std::fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let math = match self.math {
            MathMode::Strict => "",
            MathMode::Contracted => " with fused operations",
            MathMode::Fast => " with approximate operations",
        };
        let arithmetic = self.arithmetic.name();
        match &self.api[..] {
            "cpu" => write!(f, "the CPU in {arithmetic}{math}"),
            api => {
                let software = if self.software { ", in software" } else { "" };
                write!(f, "{api} ({}{software}) in {arithmetic}{math}", self.device)
            }
        }
    }
}
