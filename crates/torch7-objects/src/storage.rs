//! A storage, and where the elements of a tensor are in it.

use crate::class::Element;
use crate::decimal::compression;
use crate::scanner::{Mode, Scanner, negative};
use ckpt_api::{
    DType, Encoding, Error, Extent, FileId, Limit, Limits, Placement, Result, Shape, Tensor, TensorId, Window,
};

/// Elements in ASCII from one place that is remembered to the next.
const STEP: u64 = 1024;
/// Integers of the largest storage whose values are kept.
const FEW: u64 = 64;
/// Bytes that a tensor may have however often it repeats its elements.
const FREE_REPEATED: u64 = 64 << 20;

/// Elements, one after the other.
#[derive(Debug)]
pub struct Storage {
    pub(crate) element: Element,
    dtype: DType,
    /// Elements.
    len: u64,
    data: Data,
    integers: Option<Box<[i64]>>,
}

#[derive(Debug)]
enum Data {
    /// The first byte.
    Plain(u64),
    /// Where every 1,024th number begins, and the byte behind the last one.
    Decimal(Vec<u64>, u64),
}

/// What a file states of a tensor.
#[derive(Debug)]
pub struct View {
    dtype: DType,
    shape: Shape,
    /// Elements from one index of an axis to the next.
    strides: Vec<u64>,
    /// The first element in the storage.
    offset: u64,
}

impl Storage {
    /// Reads what follows the class, and skips the elements.
    pub(crate) fn read(scanner: &mut Scanner<'_>, element: Element) -> Result<Storage> {
        let start = scanner.position();
        let size = scanner.long()?;
        let len = u64::try_from(size).map_err(|_| negative("the size of a storage", size, start))?;
        let long = scanner.mode().long();
        let mut storage = Storage {
            element,
            dtype: element.dtype(long),
            len,
            data: Data::Plain(scanner.position()),
            integers: None,
        };
        let bytes = len.checked_mul(element.bytes(long)).ok_or_else(|| {
            Error::corrupt("a storage has more elements than any file").offset(start).found(len.to_string())
        })?;
        match (scanner.mode(), element) {
            (_, Element::Long) if len <= FEW => {
                let first = scanner.position();
                let all = (0..len).map(|_| scanner.long()).collect::<Result<Box<[i64]>>>()?;
                if scanner.mode() == Mode::Ascii {
                    storage.data = Data::Decimal(vec![first], scanner.position());
                }
                storage.integers = Some(all);
            }
            (Mode::Ascii, element) if !element.is_raw() => {
                let (mut marks, mut last) = (Vec::new(), scanner.position());
                for number in 0..len {
                    let (first, end) = scanner.skip_number()?;
                    if number.is_multiple_of(STEP) {
                        marks.push(first);
                    }
                    last = end;
                }
                storage.data = Data::Decimal(marks, last);
            }
            _ => {
                scanner.skip(bytes)?;
                scanner.line_end(bytes)?;
            }
        }
        Ok(storage)
    }

    /// So many elements from `first` on, which the storage has.
    fn extent(&self, first: u64, elements: u64) -> Extent {
        let unit = self.dtype.bytes().unwrap_or(1);
        let bytes = elements.saturating_mul(unit);
        match &self.data {
            Data::Plain(start) => {
                Extent::new(FileId(0), start.saturating_add(first.saturating_mul(unit)), bytes)
            }
            Data::Decimal(marks, last) => {
                let mark = |number: u64| marks.get(usize::try_from(number).unwrap_or(usize::MAX)).copied();
                let start = mark(first / STEP).unwrap_or(*last);
                let behind = first.saturating_add(elements).div_ceil(STEP);
                let end = mark(behind).unwrap_or(*last);
                let stop = behind.saturating_mul(STEP).min(self.len);
                let before = first % STEP;
                let after = stop.saturating_sub(first.saturating_add(elements));
                let compression = compression(self.element, end.saturating_sub(start));
                Extent::new(FileId(0), start, bytes).with_compression(
                    compression.skipping(before.saturating_mul(unit)).followed_by(after.saturating_mul(unit)),
                )
            }
        }
    }

    /// Returns the values of a few longs, such as the shape that a layer makes; `None` of any other storage.
    pub fn integers(&self) -> Option<&[i64]> {
        self.integers.as_deref()
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.len.saturating_mul(self.dtype.bytes().unwrap_or(1))
    }
}

impl View {
    /// Reads what a tensor states before its storage.
    pub(crate) fn read(scanner: &mut Scanner<'_>, element: Element, limits: &Limits) -> Result<View> {
        let rank = scanner.count("the number of axes of a tensor")?;
        limits.check(Limit::Rank, rank)?;
        let mut longs = |what: &'static str| -> Result<Vec<u64>> {
            let one = |_| {
                let start = scanner.position();
                let number = scanner.long()?;
                u64::try_from(number).map_err(|_| negative(what, number, start))
            };
            (0..rank).map(one).collect()
        };
        let (sizes, strides) = (longs("the length of an axis")?, longs("the stride of an axis")?);
        if sizes.contains(&0) {
            return Err(Error::corrupt("an axis of a tensor has no length")
                .offset(scanner.position())
                .found(format!("{sizes:?}"))
                .expected("at least 1 each: a tensor without elements has no axes"));
        }
        let start = scanner.position();
        let offset = scanner.long()?;
        // A tensor without axes has no elements.
        let shape = if rank == 0 { Shape::new([0u64]) } else { Shape::new(&sizes) };
        let shape = shape.map_err(|error| error.offset(start))?;
        let strides = if rank == 0 { vec![1] } else { strides };
        let offset = match offset.checked_sub(1).map(u64::try_from) {
            Some(Ok(offset)) => offset,
            _ if shape.elements() == 0 => 0,
            _ => {
                return Err(Error::corrupt("a tensor begins before its storage")
                    .offset(start)
                    .found(offset.to_string())
                    .expected("1 or more"));
            }
        };
        Ok(View { dtype: element.dtype(scanner.mode().long()), shape, strides, offset })
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns all of a storage, as a tensor with one axis.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for more elements than a shape has.
    pub fn of(storage: &Storage) -> Result<View> {
        Ok(View { dtype: storage.dtype, shape: Shape::new([storage.len])?, strides: vec![1], offset: 0 })
    }

    /// Checks that a storage has every element of the view.
    pub(crate) fn check(&self, storage: Option<&Storage>) -> Result<()> {
        if self.shape.elements() == 0 {
            return Ok(());
        }
        let reach = self.reach().and_then(|reach| reach.checked_add(self.offset));
        let len = storage.map_or(0, |storage| storage.len);
        match reach.is_some_and(|end| end <= len) {
            true => Ok(()),
            false => Err(Error::corrupt("a tensor reaches beyond its storage")
                .found(format!(
                    "shape {}, strides {:?} from element {}",
                    self.shape,
                    self.strides,
                    self.offset.saturating_add(1)
                ))
                .expected(format!("a storage of {}", ckpt_api::count(len, "element")))),
        }
    }

    /// Elements from the first to the last one.
    fn reach(&self) -> Option<u64> {
        Window::new(vec![0; self.shape.rank()], self.shape.clone()).with_strides(self.strides.clone()).reach()
    }

    /// Describes where the elements of a tensor with this view are.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a view that repeats its elements too often.
    pub fn place(
        &self,
        id: TensorId,
        tensor: &Tensor,
        storage: Option<&Storage>,
        limits: &Limits,
    ) -> Result<Placement> {
        let elements = tensor.shape.elements();
        let encoding = Encoding::row_major(tensor);
        let Some(storage) = storage.filter(|_| elements > 0) else {
            let none = Extent::new(FileId(0), 0, 0);
            return Ok(Placement::new(id, tensor.name.clone(), vec![none], encoding));
        };
        let order = self.order();
        let encoding = encoding.with_order(order.clone());
        let reach = self.reach().unwrap_or(0);
        let extent = storage.extent(self.offset, reach);
        let times = tensor.value_bytes() / extent.len.max(1);
        if tensor.value_bytes() > FREE_REPEATED && times > limits.get(Limit::Slices) {
            return Err(Error::unsupported("the tensor repeats the elements of its storage too often")
                .found(format!(
                    "{} of {}",
                    ckpt_api::count(tensor.value_bytes(), "byte"),
                    ckpt_api::count(extent.len, "byte")
                ))
                .expected(format!("at most {} times as many", limits.get(Limit::Slices)))
                .help("save the tensor without the axes along which it is expanded"));
        }
        let placement = Placement::new(id, tensor.name.clone(), vec![extent], encoding);
        Ok(match self.is_dense(&order) {
            true => placement,
            false => {
                let window = Window::new(vec![0; self.shape.rank()], self.shape.clone());
                // The stride of an axis of one element means nothing.
                let lens = self.shape.iter().zip(&self.strides);
                let strides = lens.map(|(len, stride)| if *len == 1 { 0 } else { *stride }).collect();
                placement.with_window(window.with_strides(strides))
            }
        })
    }

    /// The axes, the ones with the longest strides first; those of one element stay where they are.
    fn order(&self) -> Vec<usize> {
        let mut long: Vec<(usize, u64)> = Vec::new();
        for (axis, (len, stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            if *len != 1 {
                long.push((axis, if *stride == 0 { u64::MAX } else { *stride }));
            }
        }
        long.sort_by_key(|(_, stride)| std::cmp::Reverse(*stride));
        let mut sorted = long.into_iter().map(|(axis, _)| axis);
        let lens = self.shape.iter().enumerate();
        lens.map(|(axis, len)| if *len == 1 { axis } else { sorted.next().unwrap_or(axis) }).collect()
    }

    /// Whether the elements are one after the other, with the axes in this order.
    fn is_dense(&self, order: &[usize]) -> bool {
        let mut step = 1u64;
        order.iter().rev().all(|axis| {
            let (len, stride) = (self.shape.get(*axis).copied(), self.strides.get(*axis).copied());
            let (len, stride) = (len.unwrap_or(1), stride.unwrap_or(0));
            let fits = len == 1 || stride == step;
            step = step.saturating_mul(len);
            fits
        })
    }
}
