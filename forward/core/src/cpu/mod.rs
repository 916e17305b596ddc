//! The reference backend: every kernel exactly as documented.

mod conv;
mod elementwise;
mod functions;
mod gemm;
mod moves;
mod number;
mod parallel;
mod planes;
mod product;
mod ranking;
mod reals;
mod recurrence;
mod sums;
mod taps;
mod vectors;

use crate::kernel::{Binary, Compare, Function, Pairwise, Ranking, Reduce, Reduction};
use crate::{Arithmetic, Array, Backend, BufferId, DeviceInfo, Element, Kernel, MathMode, ReferenceCall};
use ckpt_api::{Error, Result};
use elementwise::Elementwise;
use number::Stored;
use std::collections::BTreeMap;

/// The CPU backend.
pub struct Cpu {
    info: DeviceInfo,
    buffers: BTreeMap<BufferId, Array>,
    next: u64,
}

impl Cpu {
    /// Creates a device without buffers.
    pub fn new(arithmetic: Arithmetic) -> Self {
        let info = DeviceInfo {
            api: "cpu".into(),
            device: "reference".into(),
            software: true,
            math: MathMode::Strict,
            arithmetic,
        };
        Cpu { info, buffers: BTreeMap::new(), next: 0 }
    }

    /// Creates a device without buffers that computes in binary32, and fuses products of matrix products and convolutions (of at
    /// least four outputs in a group) with the sums that they are added to. On a processor without such an instruction, it is
    /// [`Cpu::new`] of [`Arithmetic::F32`]; all others give the same bits.
    ///
    /// ```
    /// use ckpt_forward::{Arithmetic, Backend, Cpu, MathMode};
    /// let cpu = Cpu::fused();
    /// assert_eq!(cpu.arithmetic(), Arithmetic::F32);
    /// assert_ne!(cpu.info().math, MathMode::Fast);
    /// ```
    pub fn fused() -> Self {
        let mut cpu = Cpu::new(Arithmetic::F32);
        if vectors::can_fuse() {
            cpu.info.math = MathMode::Contracted;
        }
        cpu
    }

    fn hold(&mut self, array: Array) -> BufferId {
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, array);
        id
    }
}

impl Backend for Cpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arithmetic(&self) -> Arithmetic {
        self.info.arithmetic
    }

    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        Ok(self.hold(values.clone()))
    }

    fn upload_owned(&mut self, values: Array) -> Result<BufferId> {
        Ok(self.hold(values))
    }

    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        Ok(self.hold(Array::zeros(element, len)))
    }

    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        let mut y = self.buffers.remove(&output).ok_or_else(|| unknown(output))?;
        let operands = operands.iter().map(|id| self.buffers.get(id).ok_or_else(|| unknown(*id)));
        let result = operands
            .collect::<Result<Vec<_>>>()
            .and_then(|operands| compute(&self.info, kernel, &operands, &mut y));
        self.buffers.insert(output, y);
        result
    }

    fn run_reference(&mut self, call: &ReferenceCall, operands: &[BufferId], output: BufferId) -> Result<()> {
        let operands = operands.iter().map(|id| self.buffers.get(id).ok_or_else(|| unknown(*id)));
        let computed = call.compute(&operands.collect::<Result<Vec<_>>>()?)?;
        let y = self.buffers.get_mut(&output).ok_or_else(|| unknown(output))?;
        *y = computed.into_real(self.info.arithmetic.element());
        Ok(())
    }

    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        self.buffers.get(&buffer).cloned().ok_or_else(|| unknown(buffer))
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
    }
}

fn unknown(buffer: BufferId) -> Error {
    Error::unsupported("the device has no such buffer").found(buffer.0.to_string())
}

fn compute(info: &DeviceInfo, kernel: &Kernel, operands: &[&Array], y: &mut Array) -> Result<()> {
    match (info.arithmetic, y) {
        (arithmetic, Array::I32(y)) => integers(arithmetic, kernel, operands, y),
        (_, Array::F64(y)) => reals::<f64, f64>(kernel, operands, y),
        (Arithmetic::F32InF64, Array::F32(y)) => reals::<f32, f64>(kernel, operands, y),
        (_, Array::F32(y)) if info.math == MathMode::Contracted => {
            let own = &mut Operands { kernel, left: operands.iter() };
            match products::<f32, f32>(kernel, own, true, y)? {
                Some(()) => Ok(()),
                None => reals::<f32, f32>(kernel, operands, y),
            }
        }
        (_, Array::F32(y)) => reals::<f32, f32>(kernel, operands, y),
    }
}

/// An element type, with access to the arrays that hold it.
trait Slices: Sized + 'static {
    fn slice(array: &Array) -> Option<&[Self]>;
}

macro_rules! slices {
    ($($t:ty = $variant:ident),*) => {
        $(impl Slices for $t {
            fn slice(array: &Array) -> Option<&[Self]> {
                match array {
                    Array::$variant(values) => Some(values),
                    _ => None,
                }
            }
        })*
    };
}

slices!(f32 = F32, f64 = F64, i32 = I32);

/// The operands of a kernel, taken in order.
struct Operands<'a> {
    kernel: &'a Kernel,
    left: std::slice::Iter<'a, &'a Array>,
}

impl<'a> Operands<'a> {
    fn take<T: Slices>(&mut self) -> Result<&'a [T]> {
        self.left.next().and_then(|array| T::slice(array)).ok_or_else(|| self.wrong())
    }

    fn wrong(&self) -> Error {
        Error::unsupported("a kernel got different operands than it declares")
            .found(format!("kernel {}", self.kernel.name()))
    }

    fn take_if<T: Slices>(&mut self, is_there: bool) -> Result<Option<&'a [T]>> {
        is_there.then(|| self.take()).transpose()
    }
}

fn too_large(kernel: &Kernel) -> Error {
    Error::unsupported("an integer exceeds 32 bits")
        .found(format!("kernel {}", kernel.name()))
        .help("the network's quantization overflows in integer arithmetic; no engine computes this exactly")
}

fn no_integers(kernel: &Kernel) -> Error {
    Error::unsupported("this kernel supports only real numbers").found(format!("kernel {}", kernel.name()))
}

/// Runs a matrix product or a convolution; `Ok(None)` for another kernel.
fn products<T, A>(kernel: &Kernel, operands: &mut Operands, is_fused: bool, y: &mut [T]) -> Result<Option<()>>
where
    T: Slices + Stored<A> + Default,
    A: product::Product,
{
    let done = match kernel {
        Kernel::MatMul(product) => gemm::mat_mul(product, [operands.take()?, operands.take()?], is_fused, y),
        Kernel::Gemm(gemm) => {
            let from = gemm::Operands {
                x: operands.take()?,
                weight: operands.take()?,
                bias: operands.take_if(gemm.bias.is_some())?,
                bucket: operands.take_if(gemm.buckets > 0)?,
            };
            gemm::gemm(gemm, &from, is_fused, y)
        }
        Kernel::Conv(conv) => {
            let from = planes::Operands {
                x: operands.take()?,
                weight: operands.take()?,
                bias: operands.take_if(conv.bias)?,
            };
            conv::conv(conv, &from, is_fused, y)
        }
        _ => return Ok(None),
    };
    done.map(Some).ok_or_else(|| too_large(kernel))
}

/// Runs a kernel that supports integers and real numbers; `Ok(None)` for another kernel.
fn shared<T, A>(kernel: &Kernel, operands: &mut Operands, y: &mut [T]) -> Result<Option<()>>
where
    T: Slices + Stored<A> + Default,
    A: product::Product,
{
    if products::<T, A>(kernel, operands, false, y)?.is_some() {
        return Ok(Some(()));
    }
    let done = match kernel {
        Kernel::Copy(copy) => moves::copy(copy, operands.take()?, y),
        Kernel::Pad(pad) => moves::pad(pad, operands.take()?, y),
        Kernel::Gather(gather) => moves::gather(gather, operands.take()?, operands.take()?, y),
        Kernel::Scatter(scatter) => {
            moves::scatter(scatter, operands.take()?, operands.take()?, operands.take()?, y)
        }
        Kernel::Binary(binary) => elementwise::binary(binary, operands.take()?, operands.take()?, y),
        Kernel::Select(select) => {
            elementwise::select(select, operands.take()?, operands.take()?, operands.take()?, y)
        }
        Kernel::Reduce(reduce) => sums::reduce(reduce, operands.take()?, y),
        Kernel::Scan(scan) => sums::scan(scan, operands.take()?, y),
        Kernel::SparseSum(sum) => {
            let from = sums::Sparse {
                index: operands.take()?,
                weight: operands.take()?,
                factoriser: operands.take_if(sum.factoriser.is_some())?,
                bias: operands.take_if(sum.bias.is_some())?,
                bucket: operands.take_if(sum.bias_buckets > 0)?,
            };
            sums::sparse_sum(sum, &from, y)
        }
        _ => return Ok(None),
    };
    done.map(Some).ok_or_else(|| too_large(kernel))
}

fn integers(arithmetic: Arithmetic, kernel: &Kernel, operands: &[&Array], y: &mut [i32]) -> Result<()> {
    check_integers(kernel, operands)?;
    let mut operands = Operands { kernel, left: operands.iter() };
    match kernel {
        Kernel::Unary(unary) if unary.function == Function::Truncate => {
            truncate(arithmetic, &mut operands, y)
        }
        Kernel::Unary(unary) => {
            for (x, y) in operands.take::<i32>()?.iter().zip(y) {
                let value = elementwise::integer(unary.function, *x).ok_or_else(|| no_integers(kernel))?;
                *y = value.ok_or_else(|| too_large(kernel))?;
            }
            Ok(())
        }
        Kernel::Compare(compare) => compared(compare, &mut operands, y),
        Kernel::Ranking(ranking) => ranked(ranking, &mut operands, y),
        _ => shared::<i32, i64>(kernel, &mut operands, y)?.ok_or_else(|| no_integers(kernel)),
    }
}

/// Refuses what integers cannot compute, before anything is computed.
fn check_integers(kernel: &Kernel, operands: &[&Array]) -> Result<()> {
    match kernel {
        Kernel::Reduce(Reduce { function: Reduction::Mean, .. }) => Err(no_integers(kernel)),
        Kernel::Binary(binary) if binary.function == Pairwise::Power => match operands {
            [Array::I32(bases), Array::I32(exponents)]
                if bases.contains(&0) && exponents.iter().any(|exponent| *exponent < 0) =>
            {
                Err(Error::unsupported("0 to the power of a negative integer is infinite"))
            }
            _ => Ok(()),
        },
        Kernel::Binary(Binary {
            function: Pairwise::Divide | Pairwise::Modulo | Pairwise::Remainder,
            ..
        }) => match operands.get(1) {
            Some(Array::I32(divisors)) if divisors.contains(&0) => {
                Err(Error::corrupt("a division of integers by 0"))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Rounds real numbers to integers.
#[expect(clippy::cast_possible_truncation, reason = "a number within the bounds fits")]
fn truncate(arithmetic: Arithmetic, operands: &mut Operands, y: &mut [i32]) -> Result<()> {
    let values: Vec<f64> = match arithmetic.element() {
        Element::F64 => operands.take::<f64>()?.to_vec(),
        _ => operands.take::<f32>()?.iter().map(|x| f64::from(*x)).collect(),
    };
    for (x, y) in values.into_iter().zip(y) {
        let whole = x.trunc();
        if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole) {
            return Err(
                Error::unsupported("a number does not fit an integer of 32 bits").found(x.to_string())
            );
        }
        *y = whole as i32;
    }
    Ok(())
}

/// Compares elements of any type.
fn compared(compare: &Compare, operands: &mut Operands, y: &mut [i32]) -> Result<()> {
    let done = match operands.left.as_slice() {
        [Array::I32(a), Array::I32(b)] => elementwise::compare(compare, a, b, y),
        [Array::F32(a), Array::F32(b)] => elementwise::compare(compare, a, b, y),
        [Array::F64(a), Array::F64(b)] => elementwise::compare(compare, a, b, y),
        _ => None,
    };
    done.ok_or_else(|| operands.wrong())
}

/// Ranks elements of any type.
fn ranked(ranking: &Ranking, operands: &mut Operands, y: &mut [i32]) -> Result<()> {
    let done = match operands.left.as_slice() {
        [Array::I32(x)] => ranking::ranking(ranking, x, y),
        [Array::F32(x)] => ranking::ranking(ranking, x, y),
        [Array::F64(x)] => ranking::ranking(ranking, x, y),
        _ => None,
    };
    done.ok_or_else(|| operands.wrong())
}

fn reals<T, A>(kernel: &Kernel, operands: &[&Array], y: &mut [T]) -> Result<()>
where
    T: Slices + Stored<A> + Default,
    A: Elementwise + product::Product,
{
    if let Kernel::Binary(binary) = kernel
        && binary.function.is_of_bits()
    {
        return Err(Error::unsupported("this kernel supports only integers")
            .found(format!("kernel {}", kernel.name())));
    }
    let mut operands = Operands { kernel, left: operands.iter() };
    if shared::<T, A>(kernel, &mut operands, y)?.is_some() {
        return Ok(());
    }
    let done = match kernel {
        Kernel::Unary(unary) => unary_real(unary.function, &mut operands, y)?,
        Kernel::Pool(pool) => reals::pool(pool, operands.take()?, y),
        Kernel::Affine(affine) => {
            let x = operands.take()?;
            let by = [operands.take()?, operands.take()?, operands.take()?, operands.take()?];
            reals::affine(affine, x, by, y)
        }
        Kernel::LayerNorm(norm) => {
            reals::layer_norm(norm, operands.take()?, operands.take()?, operands.take_if(norm.bias)?, y)
        }
        Kernel::Recurrence(kernel) => {
            let from = recurrence::Operands {
                x: operands.take()?,
                weight: operands.take()?,
                bias: operands.take_if(kernel.bias)?,
                hidden: operands.take_if(kernel.initial_hidden)?,
                cell: operands.take_if(kernel.initial_cell)?,
            };
            recurrence::recurrence(kernel, &from, y)
        }
        Kernel::Softmax(softmax) => reals::softmax(softmax, operands.take()?, y),
        Kernel::StaticFeatures(image) => reals::static_features(image, operands.take()?, y),
        _ => None,
    };
    done.ok_or_else(|| {
        Error::unsupported("a kernel got sizes that do not fit").found(format!("kernel {}", kernel.name()))
    })
}

fn unary_real<T, A>(function: Function, operands: &mut Operands, y: &mut [T]) -> Result<Option<()>>
where
    T: Slices + Stored<A>,
    A: Elementwise,
{
    if let Function::Dequantize { divide } = function {
        for (x, y) in operands.take::<i32>()?.iter().zip(y) {
            let Some(value) = T::narrow(A::constant(f64::from(*x)).div(A::constant(divide))) else {
                return Ok(None);
            };
            *y = value;
        }
        return Ok(Some(()));
    }
    Ok(elementwise::unary(function, operands.take::<T>()?, y))
}
