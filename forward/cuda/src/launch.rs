//! A kernel as the device takes it: the entry's name, its parameters as words, and sizes checked against the buffers.

use crate::pack;
use crate::sizes::{Operand, SLOTS, Sizes, does_not_fit, extent, outputs, product};
use ckpt_api::{Error, Result};
use ckpt_forward::kernel::{Border, Conv, Copy, Function, Gemm, Pairwise, Pool, Reduction, SparseSum, Unary};
use ckpt_forward::{Arithmetic, Element, Kernel, not_on_device};

/// Words of 8 bytes that hold the parameters of any entry; as `WORDS` in `kernels.cu`.
pub const WORDS: usize = 32;

/// What can be launched on buffers of the sizes that it was made for: no entry reads or writes beyond them, whatever
/// values they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The entry in `kernels.cu`.
    pub entry: String,
    /// Its parameters, in the order of its struct there.
    pub words: [u64; WORDS],
    /// For each operand of the entry, which of the kernel's it is.
    pub slots: [Option<usize>; SLOTS],
    /// Outputs, each computed by one thread; 0 if there is nothing to launch.
    pub threads: u64,
}

impl Launch {
    /// The launch that computes `kernel` on buffers of these types and lengths.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for operands or sizes that do not fit, and for what is not computed with
    /// elements of this type.
    pub fn new(
        arithmetic: Arithmetic,
        kernel: &Kernel,
        operands: &[Operand],
        output: Operand,
    ) -> Result<Self> {
        let numbers = Numbers::of(arithmetic, kernel, output.element)?;
        let entry = entry(kernel, numbers)?;
        let mut sizes = Sizes::new(kernel, operands, output);
        check(kernel, numbers.element(), &mut sizes)?;
        let (slots, threads) = sizes.finish()?;
        let mut words = [0; WORDS];
        for (word, value) in words.iter_mut().zip(pack::words(kernel, threads)) {
            *word = value;
        }
        Ok(Launch { entry, words, slots, threads })
    }
}

/// What an entry computes with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Real(Arithmetic),
    Integer,
}

impl Numbers {
    fn of(arithmetic: Arithmetic, kernel: &Kernel, output: Element) -> Result<Self> {
        match output {
            Element::I32 => Ok(Numbers::Integer),
            element if element == arithmetic.element() => Ok(Numbers::Real(arithmetic)),
            element => Err(does_not_fit(kernel)
                .found(format!("{element:?}"))
                .expected(format!("{:?}", arithmetic.element()))),
        }
    }

    fn element(self) -> Element {
        match self {
            Numbers::Real(arithmetic) => arithmetic.element(),
            Numbers::Integer => Element::I32,
        }
    }
}

fn entry(kernel: &Kernel, numbers: Numbers) -> Result<String> {
    let name = match kernel {
        Kernel::Compare(_)
        | Kernel::Select(_)
        | Kernel::MatMul(_)
        | Kernel::Scan(_)
        | Kernel::Ranking(_)
        | Kernel::Scatter(_)
        | Kernel::Recurrence(_) => return Err(not_on_device(kernel)),
        Kernel::Conv(Conv { window, .. }) | Kernel::Pool(Pool { window, .. }) if !window.is_flat() => {
            return Err(not_on_device(kernel));
        }
        Kernel::Pad(pad) if !matches!(pad.border, Border::Nearest | Border::Value(0.0)) => {
            return Err(not_on_device(kernel));
        }
        Kernel::Reduce(reduce) if reduce.function != Reduction::Mean => return Err(not_on_device(kernel)),
        Kernel::Binary(binary) if !matches!(binary.function, Pairwise::Add | Pairwise::Multiply) => {
            return Err(not_on_device(kernel));
        }
        Kernel::Unary(unary) if pack::function(unary.function).is_none() => {
            return Err(not_on_device(kernel));
        }
        Kernel::Reduce(_) => "mean",
        Kernel::Unary(Unary { function: Function::Dequantize { .. }, .. }) => "dequantize",
        Kernel::Unary(_) if kernel.is_transcendental() => "transcendental",
        _ => kernel.name(),
    };
    let suffix = match (kernel, numbers) {
        (Kernel::Copy(_) | Kernel::Pad(_) | Kernel::Gather(_), _) => match numbers.element() {
            Element::F64 => "b64",
            Element::F32 | Element::I32 => "b32",
        },
        (_, Numbers::Integer) if has_integers(kernel) => "i32",
        (_, Numbers::Integer) => {
            return Err(unsupported(kernel, "this operation supports only real numbers"));
        }
        (Kernel::Unary(Unary { function: Function::Scale { .. }, .. }), _) => {
            return Err(unsupported(kernel, "this operation supports only integers"));
        }
        (_, Numbers::Real(Arithmetic::F64)) => "f64",
        (_, Numbers::Real(Arithmetic::F32)) => "f32",
        (_, Numbers::Real(Arithmetic::F32InF64)) => "f32_in_f64",
    };
    Ok(format!("{name}_{suffix}"))
}

fn unsupported(kernel: &Kernel, message: &str) -> Error {
    Error::unsupported(message).found(format!("in the kernel {}", kernel.name()))
}

fn has_integers(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::Unary(unary) => matches!(
            unary.function,
            Function::Relu | Function::Clip { .. } | Function::Square | Function::Scale { .. }
        ),
        Kernel::Binary(_) | Kernel::Gemm(_) | Kernel::Conv(_) | Kernel::SparseSum(_) => true,
        _ => false,
    }
}

/// Takes the operands in the order that the kernel states, each into the slot where the entry expects it.
fn check(kernel: &Kernel, element: Element, sizes: &mut Sizes) -> Result<()> {
    match kernel {
        Kernel::Copy(copy) => return check_copy(copy, element, sizes),
        Kernel::Gather(gather) => {
            sizes.take(0, element, extent(0, &[gather.table, gather.columns], &gather.strides))?;
            sizes.take(1, Element::I32, product(&[gather.rows]))?;
        }
        Kernel::Gemm(gemm) => check_gemm(gemm, element, sizes)?,
        Kernel::SparseSum(sum) => check_sparse_sum(sum, element, sizes)?,
        Kernel::Conv(conv) => check_conv(conv, element, sizes)?,
        Kernel::Pool(pool) => {
            let [_, height, width] = pool.window.input;
            sizes.window(&pool.window)?;
            sizes.covers(&pool.window)?;
            sizes.take(0, element, product(&[pool.images, height, width]))?;
        }
        Kernel::Unary(unary) => {
            let is_integer = matches!(unary.function, Function::Dequantize { .. });
            sizes.must(!matches!(unary.function, Function::Scale { divide: 0, .. }))?;
            sizes.take(0, if is_integer { Element::I32 } else { element }, product(&[unary.len]))?;
        }
        Kernel::Pad(pad) => {
            sizes.same_rank(&[pad.input.len(), pad.output.len(), pad.before.len()])?;
            sizes.take(0, element, product(&pad.input))?;
        }
        Kernel::Binary(binary) => {
            let [a, b] = &binary.strides;
            sizes.same_rank(&[binary.shape.len(), a.len(), b.len()])?;
            sizes.take(0, element, extent(0, &binary.shape, a))?;
            sizes.take(1, element, extent(0, &binary.shape, b))?;
        }
        Kernel::Affine(affine) => {
            sizes.take(0, element, product(&[affine.outer, affine.channels, affine.inner]))?;
            for slot in 1..SLOTS {
                sizes.take(slot, element, product(&[affine.channels]))?;
            }
        }
        Kernel::LayerNorm(norm) => {
            sizes.take(0, element, product(&[norm.rows, norm.len]))?;
            for slot in 1..=1 + usize::from(norm.bias) {
                sizes.take(slot, element, product(&[norm.len]))?;
            }
        }
        Kernel::Softmax(_) => sizes.take(0, element, outputs(kernel))?,
        Kernel::Reduce(mean) => {
            sizes.must(mean.len > 0)?;
            sizes.take(0, element, product(&[mean.rows, mean.len]))?;
        }
        Kernel::Compare(_)
        | Kernel::Select(_)
        | Kernel::MatMul(_)
        | Kernel::Scan(_)
        | Kernel::Ranking(_)
        | Kernel::Scatter(_)
        | Kernel::Recurrence(_) => return Err(not_on_device(kernel)),
        Kernel::StaticFeatures(image) => {
            sizes.take(0, element, product(&[image.batch, 4, image.height, image.width]))?;
        }
    }
    sizes.output(outputs(kernel))
}

fn check_copy(copy: &Copy, element: Element, sizes: &mut Sizes) -> Result<()> {
    sizes.same_rank(&[copy.shape.len(), copy.from.strides.len(), copy.to.strides.len()])?;
    sizes.take(0, element, extent(copy.from.offset, &copy.shape, &copy.from.strides))?;
    sizes.written_once(&copy.shape, &copy.to.strides)?;
    sizes.output_within(extent(copy.to.offset, &copy.shape, &copy.to.strides), product(&copy.shape))
}

fn check_gemm(gemm: &Gemm, element: Element, sizes: &mut Sizes) -> Result<()> {
    let sets = gemm.buckets.max(1);
    let weight = [gemm.weight.bucket, gemm.weight.inner, gemm.weight.output];
    sizes.take(0, element, product(&[gemm.rows, gemm.inner]))?;
    sizes.take(1, element, extent(0, &[sets, gemm.inner, gemm.outputs], &weight))?;
    if let Some(bias) = gemm.bias {
        sizes.take(2, element, extent(0, &[sets, gemm.outputs], &[bias.bucket, bias.output]))?;
    }
    if gemm.buckets > 0 {
        sizes.take(3, Element::I32, product(&[gemm.rows]))?;
    }
    Ok(())
}

fn check_sparse_sum(sum: &SparseSum, element: Element, sizes: &mut Sizes) -> Result<()> {
    sizes.limit(product(&[sum.sets, sum.features]))?;
    sizes.take(0, Element::I32, product(&[sum.rows, sum.slots]))?;
    sizes.take(1, element, extent(0, &[sum.sets, sum.features, sum.outputs], &sum.weight))?;
    if let Some(factoriser) = sum.factoriser {
        sizes.take(2, element, extent(0, &[sum.features, sum.outputs], &factoriser))?;
    }
    if let Some(bias) = sum.bias {
        sizes.take(3, element, extent(0, &[sum.bias_buckets.max(1), sum.outputs], &bias))?;
    }
    if sum.bias_buckets > 0 {
        sizes.take(4, Element::I32, product(&[sum.rows]))?;
    }
    Ok(())
}

fn check_conv(conv: &Conv, element: Element, sizes: &mut Sizes) -> Result<()> {
    let ([_, height, width], [_, ky, kx]) = (conv.window.input, conv.window.kernel);
    let [output, input, _, row, column] = conv.weight;
    let is_divided = |channels: usize| channels.checked_rem(conv.groups) == Some(0);
    sizes.must(is_divided(conv.inputs) && is_divided(conv.outputs))?;
    sizes.window(&conv.window)?;
    let inputs = conv.inputs.checked_div(conv.groups).unwrap_or(0);
    sizes.take(0, element, product(&[conv.batch, conv.inputs, height, width]))?;
    sizes.take(1, element, extent(0, &[conv.outputs, inputs, ky, kx], &[output, input, row, column]))?;
    if conv.bias {
        sizes.take(2, element, product(&[conv.outputs]))?;
    }
    Ok(())
}
