//! What a device must be able to do.

use crate::{Array, Element, Kernel};
use ckpt_api::Result;
use serde::{Deserialize, Serialize};

/// A device that runs kernels on buffers that it holds.
///
/// A kernel that a backend cannot run is an error: nothing falls back to another device silently.
pub trait Backend {
    /// What the device really is.
    fn info(&self) -> &DeviceInfo;

    /// How numbers are held and summed.
    fn arithmetic(&self) -> Arithmetic;

    /// Copies values to the device. Real numbers must be of [`Arithmetic::element`].
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] where they do not fit.
    fn upload(&mut self, values: &Array) -> Result<BufferId>;

    /// A buffer of zeros.
    ///
    /// # Errors
    /// As [`Backend::upload`].
    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId>;

    /// Computes `output` from `operands`, in the order that the kernel states. The output is none of the operands.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a kernel that this device has not; what the device reports. An error's field is the node's
    /// name: the caller gives it.
    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()>;

    /// Copies values back.
    ///
    /// # Errors
    /// What the device reports, also of kernels that ran before.
    fn download(&mut self, buffer: BufferId) -> Result<Array>;

    /// Forgets a buffer.
    fn free(&mut self, buffer: BufferId);
}

/// A buffer on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// How real numbers are held and summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// All in binary64: the oracle.
    #[default]
    F64,
    /// All in binary32, sums in the order that a kernel states: what GPU kernels are compared with, bit by bit.
    F32,
    /// Held in binary32, computed in binary64.
    F32InF64,
}

impl Arithmetic {
    /// What real numbers in buffers are.
    pub fn element(self) -> Element {
        match self {
            Arithmetic::F64 => Element::F64,
            Arithmetic::F32 | Arithmetic::F32InF64 => Element::F32,
        }
    }

    /// The name in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::F64 => "f64",
            Arithmetic::F32 => "f32",
            Arithmetic::F32InF64 => "f32-in-f64",
        }
    }
}

/// What a device really is: shown to people, and put into reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceInfo {
    /// The interface that was used: `cpu`, `cuda`, `metal`, `vulkan`.
    pub api: String,
    /// The adapter, as its driver names it.
    pub device: String,
    /// Whether the adapter is software on a CPU.
    pub software: bool,
    /// How closely it keeps to the stated operations.
    pub math: MathMode,
    /// How numbers are held and summed.
    pub arithmetic: Arithmetic,
}

/// How closely a device keeps to the stated operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MathMode {
    /// As stated, each operation rounded.
    Strict,
    /// The driver may contract a multiplication and an addition.
    Contracted,
    /// The driver may reassociate and approximate.
    Fast,
}

impl std::fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let math = match self.math {
            MathMode::Strict => "strict",
            MathMode::Contracted => "contracted",
            MathMode::Fast => "fast-math",
        };
        let software = if self.software && self.api != "cpu" { " (CPU)" } else { "" };
        write!(f, "{}/{}{software}, {}, {math}", self.api, self.device, self.arithmetic.name())
    }
}
