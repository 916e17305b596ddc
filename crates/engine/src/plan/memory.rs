//! How much memory a conversion takes, and how threads share it.

use super::{Access, Plan, Settings, TensorEntry};
use crate::resources::{
    Budget, COMPUTING, DECOMPRESSED, PER_THREAD, Resources, address_space_left, default_threads,
};
use crate::settings;
use crate::store::Store;
use ckpt_api::{Error, Extent, OutputFile, Placement, ReadStore, Result, text};

/// What the process holds before the first worker starts: code, stacks, allocator.
const BASE: u64 = 6 << 20;
/// What describes one tensor, on both sides.
const PER_TENSOR: u64 = 640;
/// What describes one tensor again, where some of the source's are left out.
const SELECTED: u64 = 512;
/// What describes one tensor again, where a mapping, a transform or a dtype makes it of the source's.
const MADE: u64 = 2048;
/// What describes one further stored piece of a tensor, on both sides.
const PER_EXTENT: u64 = 512;
/// What describes one literal beside its bytes: npz has several for each tensor.
const PER_LITERAL: u64 = 256;
/// How many times a name is held at most: a plan that was read has one for the checkpoint, the source and the target each,
/// and a header has one.
const NAMES: u64 = 4;

/// What may be mapped beside all that, for what is allocated in pieces.
const MARGIN: u64 = 1 << 20;

/// Bytes that are in memory whatever the workers do: the process, descriptions and headers.
struct Held {
    /// At most, until all is done.
    all: u64,
    /// Of that, what is mapped after planning.
    ahead: u64,
    /// What each worker needs to decompress what it reads, and to compute numbers.
    each: u64,
}

impl Held {
    fn new(plan: &Plan, reread: bool, stores: u64) -> Self {
        let placed = &plan.placed;
        let literals: u64 = placed.literals.iter().map(|literal| literal.bytes.len() as u64).sum();
        let per_tensor = PER_TENSOR + again_described(&plan.settings);
        let each = |entry: TensorEntry<'_>| {
            let extents = (entry.from.extents.len() + entry.to.extents.len()) as u64;
            per_tensor + PER_EXTENT * extents.saturating_sub(2) + NAMES * entry.tensor.len() as u64
        };
        let described = PER_LITERAL * placed.literals.len() as u64 + plan.tensors().map(each).sum::<u64>();
        let working = placed.working_memory.saturating_add(plan.contents.working_memory);
        let once = (2 * (literals + placed.finish.bytes()) + described).saturating_add(working);
        let again = if reread { once } else { 0 };
        Held {
            all: (BASE + once + again).saturating_add(stores),
            ahead: (MARGIN + once / 4 + again).saturating_add(stores),
            each: decompressing(plan) + computing(plan),
        }
    }
}

/// What describes a tensor beside its source's description, if it is not that itself.
fn again_described(settings: &Settings) -> u64 {
    let Settings { mapping, transforms, include, exclude, dtype, .. } = settings;
    match () {
        () if mapping.is_some() || !transforms.is_empty() || dtype.is_some() => MADE,
        () if !include.is_empty() || !exclude.is_empty() => SELECTED,
        () => 0,
    }
}

/// Bytes that decompressing takes at most in one worker.
fn decompressing(plan: &Plan) -> u64 {
    let placements = plan.tensors().flat_map(|entry| entry.added.into_iter().chain([entry.from]));
    let extents = placements.flat_map(|placement| &placement.extents);
    let largest = extents.map(Extent::decompression_memory).max().unwrap_or(0);
    // A new one is opened before an old one is closed.
    if largest == 0 { 0 } else { DECOMPRESSED + largest }
}

/// Bytes that computing numbers takes at most in one worker.
fn computing(plan: &Plan) -> u64 {
    let extents = plan.tensors().flat_map(|entry| &entry.from.extents);
    let each = extents.filter_map(|extent| extent.computed()).map(|computed| {
        // What scales rows opens all that is before it again.
        let stored = computed.readers() << computed.row_scalings().min(u64::BITS / 2);
        // Of the numbers of blocks, fewer are in memory than of those that they change.
        (COMPUTING / 2).saturating_mul(stored + 1).saturating_add(computed.index_len().saturating_mul(4))
    });
    // The last one is kept while the next one is opened.
    each.max().unwrap_or(0).saturating_mul(2)
}

/// The stores of a conversion, which hold bytes that are on their way.
#[derive(Clone, Copy)]
pub(crate) struct Stores<'a> {
    /// `None` for tensors in memory.
    pub(crate) source: Option<&'a dyn ReadStore>,
    pub(crate) target: &'a dyn Store,
}

/// The share of the memory that the source's store may have.
const SOURCE_SHARE: u64 = 4;
/// The share that the target's may have: while one part is sent, the next one must have room, and 64 MiB are two large ones.
const TARGET_SHARE: u64 = 2;

impl Stores<'_> {
    /// Lets both stores use memory, of this much in all, and returns how much they use.
    pub(crate) fn reserve(&self, files: &[OutputFile], max_memory: u64) -> u64 {
        let source = self.source.map_or(0, |source| source.reserve(max_memory / SOURCE_SHARE));
        source.saturating_add(self.target.reserve_for_writing(files, max_memory / TARGET_SHARE))
    }
}

/// The budget of each worker, the number of workers, and the bytes that all of them and the rest take at most.
///
/// `stores` is what [`Stores::reserve`] returned.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] if the conversion does not fit.
pub(super) fn share_of(
    plan: &Plan,
    resources: Resources,
    reread: bool,
    stores: u64,
) -> Result<(Budget, usize, u64)> {
    let sizes = plan.tensors().zip(0..).map(|(entry, number)| {
        let is_tiled = entry.access == Access::Tile;
        let reordered =
            is_tiled.then(|| plan.transfer(number).map_or(u64::MAX, |transfer| transfer.reordered()));
        (bytes(entry.from).max(bytes(entry.to)), reordered)
    });
    let useful = plan.items().len();
    share(resources, &Held::new(plan, reread, stores), useful, sizes, address_space_left())
}

impl Plan {
    /// Shares other memory and threads among the workers; what is written stays the same.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if the conversion does not fit.
    pub fn with_resources(self, resources: Resources, reread: bool) -> Result<Plan> {
        self.beside_stores(resources, reread, 0)
    }

    /// As [`Plan::with_resources`], where the stores of both sides hold so many bytes.
    pub(crate) fn beside_stores(mut self, resources: Resources, reread: bool, stores: u64) -> Result<Plan> {
        let shared = share_of(&self, resources, reread, stores)?;
        (self.budget, self.threads, self.peak_memory) = shared;
        Ok(self)
    }
}

/// Bytes of all extents.
pub(super) fn bytes(placement: &Placement) -> u64 {
    placement.extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.len))
}

/// Bytes of all that is stored, from which numbers may be computed.
pub(super) fn read_bytes(placement: &Placement) -> u64 {
    let stored = placement.extents.iter().map(|extent| match extent.computed() {
        Some(computed) => computed.stored().iter().fold(0, |sum: u64, stored| sum.saturating_add(stored.len)),
        None => extent.len,
    });
    stored.fold(0, u64::saturating_add)
}

/// Shares the memory among as many threads as are wanted, useful, and have room.
///
/// `sizes` has, for each tensor, how many bytes it moves, and those of the blocks within which their order changes, if it does;
/// `useful` how many items there are.
fn share(
    resources: Resources,
    held: &Held,
    useful: usize,
    sizes: impl Iterator<Item = (u64, Option<u64>)> + Clone,
    room: Option<u64>,
) -> Result<(Budget, usize, u64)> {
    let fixed = held.all;
    let wanted = match resources.threads {
        0 => default_threads(),
        threads => threads,
    };
    let peak = |budget: Budget| {
        sizes.clone().map(|(bytes, reordered)| budget.peak(bytes, reordered)).max().unwrap_or(0)
    };
    let mapped = |threads: u64| match room {
        None => u64::MAX,
        Some(room) => room.saturating_sub(held.ahead + PER_THREAD * (threads - 1)),
    };
    let left = |threads: u64| {
        let allowed = resources.max_memory.saturating_sub(fixed).min(mapped(threads));
        allowed.saturating_sub(held.each.saturating_mul(threads))
    };
    let most = wanted.clamp(1, useful.max(1));
    let fitting = (1..=most).rev().find_map(|threads| {
        let budget = Budget::of(left(threads as u64) / threads as u64)?.among(threads);
        Some((budget, threads, fixed + (peak(budget) + held.each) * threads as u64))
    });
    let least = Budget::LEAST + held.each;
    fitting.ok_or_else(|| match resources.max_memory.saturating_sub(fixed) < least {
        true => too_little_memory(resources.max_memory, fixed + least),
        false => Error::limit("the conversion needs more address space than the system allows")
            .found(format!("{} left", crate::words::count(room.unwrap_or_default(), "byte")))
            .expected(format!("at least {} bytes", held.ahead + least))
            .help("allow more with ulimit -v"),
    })
}

/// The error for a conversion that needs at least so many bytes.
pub(crate) fn too_little_memory(max_memory: u64, least: u64) -> Error {
    let whole = max_memory >> 20 << 20 == max_memory;
    let allowed = if whole { format!("{}m", max_memory >> 20) } else { max_memory.to_string() };
    let enough = format!("{}m", least.div_ceil(1 << 20));
    Error::limit("the conversion needs more memory than allowed")
        .found(settings::MEMORY.of(&allowed))
        .expected(format!("at least {least} bytes"))
        .help(text!["use ", settings::MEMORY.of(&enough)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_would_do() {
        let resources = Resources { max_memory: 1 << 20, threads: 2, ..Resources::default() };
        let held = Held { all: BASE, ahead: MARGIN, each: 0 };
        let error = share(resources, &held, 0, std::iter::empty(), None).unwrap_err().to_string();
        let least = BASE + Budget::LEAST;
        assert!(error.contains(&format!("at least {least}")), "{error}");
        share(
            Resources { max_memory: least, threads: 2, ..Resources::default() },
            &held,
            0,
            std::iter::empty(),
            None,
        )
        .unwrap();
    }

    #[test]
    fn what_reading_and_placing_took_is_counted_once_and_again_for_reading_back() {
        let registry = crate::Registry::for_tests();
        let path = "examples/data/digits";
        let source =
            crate::source::Source::open(&registry, path, &crate::source::OpenOptions::default()).unwrap();
        let output = crate::store::MemoryStore::new().at("out.safetensors");
        let mut plan = crate::Conversion::new().plan(&registry, &source, output).unwrap().plan().clone();
        let held = |plan: &Plan, reread| Held::new(plan, reread, 0).all;
        let before = [held(&plan, false), held(&plan, true)];
        std::sync::Arc::make_mut(&mut plan.placed).working_memory = 1000;
        std::sync::Arc::make_mut(&mut plan.contents).working_memory = 100;
        assert_eq!([held(&plan, false) - before[0], held(&plan, true) - before[1]], [1100, 2200]);
    }

    #[test]
    fn a_tensor_that_is_made_is_described_twice() {
        let settings = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            again_described(&settings)
        };
        assert_eq!(settings(|_| ()), 0);
        assert_eq!(settings(|settings| settings.include.push("**".into())), SELECTED);
        assert_eq!(settings(|settings| settings.exclude.push("b".into())), SELECTED);
        assert_eq!(settings(|settings| settings.transforms.push("**: transpose".into())), MADE);
        assert_eq!(settings(|settings| settings.dtype = Some(ckpt_api::DType::F16)), MADE);
        let mapping = super::super::MappingRecord { name: None, toml: String::new() };
        assert_eq!(again_described(&Settings { mapping: Some(mapping), ..Settings::default() }), MADE);
    }

    #[test]
    fn too_little_address_space_is_refused_with_the_least_that_would_do() {
        let held = Held { all: BASE, ahead: MARGIN, each: 0 };
        let error =
            share(Resources::default(), &held, 0, std::iter::empty(), Some(MARGIN)).unwrap_err().to_string();
        let least = MARGIN + Budget::LEAST;
        assert!(error.contains(&format!("at least {least}")) && error.contains("ulimit -v"), "{error}");
        share(Resources::default(), &held, 0, std::iter::empty(), Some(least)).unwrap();
    }
}
