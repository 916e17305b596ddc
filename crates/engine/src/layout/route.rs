//! One tensor's route from where it is stored to where it goes: compiled once, carried out as it is.

use super::block_units::BlockUnits;
use super::boxes::whole_box;
use super::piece::{ExtentNumbers, Part};
use super::sizes::Sizes;
use super::split_axes::{Added, Split, SplitAddend, split_axes};
use super::steps::{Access, Step, steps};
use crate::transform::restorable;
use ckpt_api::{
    AddedAxis, AxisOrder, Blocks, DType, Encoding, Error, Extent, Placement, Region, Result, Shape, Tensor,
    Window,
};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::HashMap;

/// What a target wants of one tensor.
pub(crate) struct TargetLayout<'a> {
    pub(crate) encoding: &'a Encoding,
    /// Where it is written; no extents for someone who only reads.
    pub(crate) extents: &'a [Extent],
    /// The shape that the target states, if that is not the tensor's own in stored order.
    pub(crate) shape: Option<&'a Shape>,
}

impl<'a> TargetLayout<'a> {
    /// The target of a conversion.
    pub(crate) fn placed(placement: &'a Placement) -> Self {
        let Placement { encoding, extents, .. } = placement;
        TargetLayout { encoding, extents, shape: placement.shape() }
    }

    /// Someone who reads the tensor in this encoding.
    pub(crate) fn read(encoding: &'a Encoding) -> Self {
        TargetLayout { encoding, extents: &[], shape: None }
    }
}

/// The compiled form of one tensor's transfer. It refers to the placements that it was compiled from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "RouteDocument")]
pub(crate) struct Route {
    /// `None` if bytes are copied.
    more: Option<Box<More>>,
}

/// A route that does more than copy. Boxed, for there can be a million of them.
#[derive(Clone, Debug, Default, PartialEq)]
struct More {
    access: Access,
    /// What happens to the elements, in order.
    steps: Box<[Step]>,
    /// How the elements of each added tensor become 32-bit floats.
    added: Vec<Vec<Step>>,
    /// Both sides in whole axes, where one of them splits an axis.
    split: Option<Box<Split>>,
}

/// A route in JSON.
#[derive(Deserialize)]
#[serde(rename = "Route")]
struct RouteDocument {
    steps: Box<[Step]>,
    access: Access,
    #[serde(default)]
    more: Option<MoreDocument>,
}

#[derive(Default, Deserialize)]
#[serde(rename = "More", deny_unknown_fields)]
struct MoreDocument {
    #[serde(default)]
    added: Vec<Vec<Step>>,
    #[serde(default)]
    split: Option<Box<Split>>,
}

impl From<RouteDocument> for Route {
    fn from(RouteDocument { steps, access, more }: RouteDocument) -> Self {
        let MoreDocument { added, split } = more.unwrap_or_default();
        Route::new(More { access, steps, added, split })
    }
}

impl Serialize for Route {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// [`RouteDocument`], without copies.
        #[derive(Serialize)]
        #[serde(rename = "Route")]
        struct Document<'a> {
            steps: &'a [Step],
            access: Access,
            #[serde(skip_serializing_if = "Option::is_none")]
            more: Option<Rest<'a>>,
        }
        #[derive(Serialize)]
        #[serde(rename = "More")]
        struct Rest<'a> {
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            added: &'a [Vec<Step>],
            #[serde(skip_serializing_if = "Option::is_none")]
            split: Option<&'a Split>,
        }
        let rest = self.more.as_ref().map(|more| Rest { added: &more.added, split: more.split.as_deref() });
        let more = rest.filter(|rest| !rest.added.is_empty() || rest.split.is_some());
        Document { steps: self.steps(), access: self.access(), more }.serialize(serializer)
    }
}

/// A route together with what it was compiled from: all that moving the bytes needs.
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    /// The tensor's name, for errors.
    pub(crate) tensor: &'a str,
    /// Its shape, of whole axes.
    pub(crate) shape: Cow<'a, Shape>,
    /// Where its bytes are, with whole axes.
    pub(crate) source: Cow<'a, Placement>,
    /// The order in which the target stores the axes.
    pub(crate) order: Cow<'a, [usize]>,
    pub(crate) steps: Cow<'a, [Step]>,
    pub(crate) addends: Vec<Addend<'a>>,
    pub(crate) access: Access,
    pub(crate) sizes: Sizes,
}

/// A tensor that is added to another.
#[derive(Clone, Debug)]
pub(crate) struct Addend<'a> {
    /// Its own transfer, to 32-bit floats in row-major order.
    pub(crate) transfer: Transfer<'a>,
    /// For each axis of the sum, where on it the values go.
    pub(crate) axes: Cow<'a, [AddedAxis]>,
}

/// Compiles the transfer of `tensor` from `source` to `target`, with what is added on the way.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if no steps lead there, naming the tensor.
pub(crate) fn compile(
    tensor: &Tensor,
    source: &Placement,
    target: &TargetLayout<'_>,
    added: &[Added<'_>],
) -> Result<Route> {
    let regions = || target.extents.iter().map(|extent| extent.region());
    let split = split_axes(tensor, source, target.encoding, regions(), added)?;
    let names: Vec<String> = added.iter().map(|(tensor, ..)| tensor.name.to_string()).collect();
    let whole_axes = split.as_ref().map(|split| WholeAxes {
        shape: &split.shape,
        source: &split.source,
        target: target.encoding.clone().with_order(split.order.clone()).with_tiles(Vec::new()),
    });
    let slices = match keeps_slices(source, target) {
        true => 0,
        false => source.extents.iter().filter(|extent| extent.region().is_some()).count(),
    };
    let (from, to) = match &whole_axes {
        Some(whole) => (&whole.source.encoding, &whole.target),
        None => (&source.encoding, target.encoding),
    };
    let window = whole_axes.as_ref().map_or(source.window(), |whole| whole.source.window());
    let all = steps(from, to, slices, window.is_some(), &names);
    let mut all = all.map_err(|error| error.tensor(&tensor.name))?;
    if let Some(window) = window {
        let Window { start, whole, strides, .. } = Window::clone(window);
        let shape = whole_axes.as_ref().map_or(&tensor.shape, |whole| whole.shape).clone();
        all.insert(0, Step::Cut { start, shape, whole, strides });
    }
    reshape(&mut all, tensor, source, target, whole_axes.as_ref());
    if let Some(computed) = source.extents.iter().find_map(|extent| extent.computed()) {
        let operations = computed.operations.iter().map(ToString::to_string).collect();
        all.insert(0, Step::Compute { from: computed.encoding.dtype, operations });
    }
    let sliced = slices_differ(source, target);
    let tiled = sliced || all.iter().any(|step| step.access() == Access::Tile);
    let encodes = all.iter().any(|step| matches!(step, Step::EncodeBlocks { .. }));
    if let Some(blocks) = target.encoding.blocks().filter(|_| tiled && !encodes) {
        return Err(blocks.refusal().tensor(&tensor.name).found("parts of the tensor"));
    }
    if tiled && Sizes::new(&source.encoding, target.encoding).largest.is_none() {
        return Err(not_movable(tensor, &source.encoding, target.encoding));
    }
    let numbers = |(tensor, source, _): &Added<'_>| {
        steps(&source.encoding, &floats(tensor), 0, false, &[]).map_err(|error| error.tensor(&tensor.name))
    };
    let added: Vec<Vec<Step>> = match &split {
        None => added.iter().map(numbers).collect::<Result<_>>()?,
        Some(split) => {
            let pairs = added.iter().zip(&split.added);
            pairs.map(|(added, split)| split_numbers(added, split)).collect::<Result<_>>()?
        }
    };
    if let (Some(split), Some(whole)) = (&split, &whole_axes) {
        check_split_blocks(tensor, &split.shape, &split.source.encoding)?;
        check_split_blocks(tensor, &split.shape, &whole.target)?;
    }
    let access = if tiled { Access::Tile } else { Access::Stream };
    Ok(Route::new(More { access, steps: all.into(), added, split: split.map(Box::new) }))
}

/// Blocks along an axis that is split stay whole.
fn check_split_blocks(tensor: &Tensor, shape: &Shape, encoding: &Encoding) -> Result<()> {
    let Some(blocks) = encoding.blocks() else { return Ok(()) };
    let fastest = encoding.order.last().and_then(|axis| shape.get(*axis)).copied().unwrap_or(1);
    if fastest.is_multiple_of(blocks.elements()) {
        return Ok(());
    }
    Err(Error::unsupported(format!("an axis cannot be split within blocks of {blocks}"))
        .tensor(&tensor.name)
        .found(format!("parts of {fastest} elements"))
        .expected(format!("a multiple of {}", blocks.elements()))
        .help("convert to numbers without blocks first"))
}

/// Both sides of a split transfer.
struct WholeAxes<'a> {
    shape: &'a Shape,
    source: &'a Placement,
    target: Encoding,
}

/// Adds the steps that state another shape for the same bytes.
fn reshape(
    steps: &mut Vec<Step>,
    tensor: &Tensor,
    source: &Placement,
    target: &TargetLayout<'_>,
    split: Option<&WholeAxes<'_>>,
) {
    if split.is_none() && target.shape.is_none() {
        return;
    }
    let stored =
        |encoding: &Encoding| encoding.expanded(&tensor.shape).unwrap_or_default().permuted(&encoding.order);
    // What is cut out of a whole has no stored shape of its own.
    if let Some(split) = split.filter(|_| source.window().is_none()) {
        let (own, parts) = (stored(&source.encoding), split.shape.permuted(&split.source.encoding.order));
        if own != parts {
            steps.insert(0, Step::Reshape { from: own, to: parts });
        }
    }
    let last = match split {
        Some(split) => split.shape.permuted(&split.target.order),
        None => stored(target.encoding),
    };
    let stated = target.shape.cloned().unwrap_or_else(|| stored(target.encoding));
    if stated != last {
        steps.push(Step::Reshape { from: last, to: stated });
    }
}

/// Whether the target's slices are the source's, one by one.
fn keeps_slices(source: &Placement, target: &TargetLayout<'_>) -> bool {
    let regions = source.extents.iter().map(|extent| extent.region());
    source.window().is_none()
        && source.encoding.order == target.encoding.order
        && source.encoding.tiles() == target.encoding.tiles()
        && regions.eq(target.extents.iter().map(|extent| extent.region()))
}

/// Whether the target has slices other than the source's.
fn slices_differ(source: &Placement, target: &TargetLayout<'_>) -> bool {
    target.extents.iter().any(|extent| extent.region().is_some()) && !keeps_slices(source, target)
}

/// How values are handed out: the stored dtype of floats, little-endian, row-major, whole bytes; opaque blocks as they
/// are. Integers and the smallest floats have the tensor's dtype: a format that lacks it stores a wider one.
pub(crate) fn canonical(tensor: &Tensor, placement: &Placement) -> Encoding {
    let stored = &placement.encoding;
    let mut encoding = Encoding::row_major(tensor);
    // Computed numbers are rounded to the tensor's dtype.
    let is_computed = placement.extents.iter().any(Extent::is_computed);
    if !is_computed
        && stored.scaling().is_none()
        && tensor.dtype.is_float()
        && !restorable(stored.dtype, tensor.dtype)
    {
        encoding.dtype = stored.dtype;
    }
    if let Some(blocks) = stored.blocks().filter(|blocks| blocks.is_opaque()) {
        encoding.order.clone_from(&stored.order);
        encoding = encoding.in_blocks(blocks.clone());
    }
    encoding
}

/// What is added is added as these.
fn floats(tensor: &Tensor) -> Encoding {
    Encoding::row_major(tensor).with_dtype(DType::F32)
}

fn split_numbers((tensor, ..): &Added<'_>, split: &SplitAddend) -> Result<Vec<Step>> {
    let to = split_floats(tensor, &split.shape);
    steps(&split.source.encoding, &to, 0, false, &[]).map_err(|error| error.tensor(&tensor.name))
}

fn split_floats(tensor: &Tensor, shape: &Shape) -> Encoding {
    floats(tensor).with_order(AxisOrder::row_major(shape.rank()))
}

fn not_movable(tensor: &Tensor, from: &Encoding, to: &Encoding) -> Error {
    Error::unsupported("the elements cannot be reordered")
        .tensor(&tensor.name)
        .found(format!("{} to {}, or slices of it", from.dtype, to.dtype))
        .expected("elements of whole bytes")
}

impl Route {
    fn new(more: More) -> Self {
        // So that equal routes are equal.
        Route { more: (more != More::default()).then(|| Box::new(more)) }
    }

    /// How reading touches the source.
    pub(crate) fn access(&self) -> Access {
        self.more.as_ref().map_or_else(Access::default, |more| more.access)
    }

    /// What happens to the elements, in order.
    pub(crate) fn steps(&self) -> &[Step] {
        self.more.as_ref().map_or(&[], |more| &more.steps)
    }

    /// The route with what it was compiled from.
    pub(crate) fn transfer<'a>(
        &'a self,
        tensor: &'a Tensor,
        source: &'a Placement,
        target: &'a Encoding,
        added: &[Added<'a>],
    ) -> Transfer<'a> {
        let sizes = Sizes::new(&source.encoding, target);
        let (shape, source, order) = match self.split() {
            Some(split) => (&split.shape, &split.source, &split.order[..]),
            None => (&tensor.shape, source, &target.order[..]),
        };
        Transfer {
            tensor: &tensor.name,
            shape: Cow::Borrowed(shape),
            source: Cow::Borrowed(source),
            order: Cow::Borrowed(order),
            steps: Cow::Borrowed(self.steps()),
            addends: added.iter().enumerate().map(|(k, added)| self.addend(k, added)).collect(),
            access: self.access(),
            sizes,
        }
    }

    /// Gives block encodings that were read from a document their decoders and encoders.
    pub(crate) fn attach(&mut self, known: &[Blocks]) {
        let Some(More { steps, added, split, .. }) = self.more.as_deref_mut() else { return };
        for step in steps.iter_mut().chain(added.iter_mut().flatten()) {
            if let Step::DecodeBlocks { blocks } | Step::EncodeBlocks { blocks } = step {
                blocks.attach(known);
            }
        }
        let Some(Split { source, added, .. }) = split.as_deref_mut() else { return };
        for source in added.iter_mut().map(|added| &mut added.source).chain([source]) {
            source.attach(known);
        }
    }

    fn split(&self) -> Option<&Split> {
        self.more.as_ref()?.split.as_deref()
    }

    fn addend<'a>(&'a self, number: usize, (tensor, source, axes): &Added<'a>) -> Addend<'a> {
        let split = self.split().and_then(|split| split.added.get(number));
        let steps = self.more.as_ref().and_then(|more| more.added.get(number));
        let (shape, source, axes) = match split {
            Some(split) => (&split.shape, &split.source, &split.axes[..]),
            None => (&tensor.shape, *source, *axes),
        };
        let target = split_floats(tensor, shape);
        Addend {
            transfer: Transfer {
                tensor: &tensor.name,
                shape: Cow::Borrowed(shape),
                source: Cow::Borrowed(source),
                sizes: Sizes::new(&source.encoding, &target),
                order: Cow::Owned(target.order.into()),
                steps: Cow::Borrowed(steps.map_or(&[], Vec::as_slice)),
                addends: Vec::new(),
                access: Access::Tile,
            },
            axes: Cow::Borrowed(axes),
        }
    }

    /// The box of each of the target's extents, in whole axes.
    pub(crate) fn regions<'a>(&'a self, extents: &'a [Extent]) -> Vec<Option<&'a Region>> {
        match self.split() {
            Some(split) => split.regions.iter().map(Option::as_ref).collect(),
            None => extents.iter().map(|extent| extent.region()).collect(),
        }
    }

    /// A route whose transfer does not borrow it.
    pub(crate) fn into_transfer<'a>(
        self,
        tensor: &'a Tensor,
        source: &'a Placement,
        target: &Encoding,
    ) -> Transfer<'a> {
        let sizes = Sizes::new(&source.encoding, target);
        let More { access, steps, split, .. } = self.more.map_or_else(More::default, |more| *more);
        let (shape, source, order) = match split.map(|split| *split) {
            Some(Split { shape, source, order, .. }) => (Cow::Owned(shape), Cow::Owned(source), order),
            None => (Cow::Borrowed(&tensor.shape), Cow::Borrowed(source), target.order.to_vec()),
        };
        Transfer {
            tensor: &tensor.name,
            shape,
            source,
            order: Cow::Owned(order),
            steps: Cow::Owned(steps.into_vec()),
            addends: Vec::new(),
            access,
            sizes,
        }
    }
}

impl Transfer<'_> {
    /// What the target stores together.
    pub(crate) fn units(&self) -> BlockUnits {
        BlockUnits::new(&self.order, self.sizes.elements)
    }

    /// Whether the source can only be read from its beginning.
    pub(crate) fn is_one_stream(&self) -> bool {
        self.source.extents.iter().any(|extent| extent.is_compressed() && extent.region().is_none())
    }

    /// Bytes, in their largest form, of the blocks within which the order of the elements changes; as many as there can be for a
    /// source that is stored in parts, compressed or computed.
    pub(crate) fn reordered(&self) -> u64 {
        let Placement { extents, encoding, .. } = &*self.source;
        let is_plain =
            |extent: &Extent| !extent.is_compressed() && !extent.is_computed() && extent.region().is_none();
        let (1, true, None, Some(size)) =
            (extents.len(), extents.iter().all(is_plain), self.source.window(), self.sizes.largest)
        else {
            return u64::MAX;
        };
        let kept = encoding.order.iter().zip(&*self.order).take_while(|(own, other)| own == other).count();
        let axes = self.order.iter().skip(kept).filter_map(|axis| self.shape.get(*axis));
        axes.fold(size, |bytes, len| bytes.saturating_mul(*len))
    }

    /// Bytes of the concatenation of some extents of the source.
    pub(crate) fn stored_len(&self, extents: ExtentNumbers) -> u64 {
        let extents = self.source.extents.get(extents.indices()).unwrap_or_default();
        extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.len))
    }

    /// Everything, as one part.
    pub(crate) fn everything(&self) -> Part {
        match self.access {
            Access::Tile => Part::Box(Box::new(whole_box(&self.shape))),
            Access::Stream => {
                let bytes = self.source.extents.iter().map(|extent| extent.len).sum();
                Part::Sequence { extents: ExtentNumbers::first(self.source.extents.len()), bytes: 0..bytes }
            }
        }
    }
}

/// The number of the source's extent that holds each box.
pub(super) fn stored_slices(transfer: &Transfer<'_>) -> HashMap<Region, usize> {
    let ordered = transfer.source.window().is_none()
        && transfer.addends.is_empty()
        && transfer.source.encoding.order[..] == transfer.order[..];
    let extents = transfer.source.extents.iter().enumerate().filter(|_| ordered);
    extents.filter_map(|(number, extent)| Some((extent.region()?.clone(), number))).collect()
}
