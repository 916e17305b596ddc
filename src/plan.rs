//! The plan of a conversion: plain data, made before any tensor byte is read.

use crate::execute::{Addend, Budget, PER_THREAD, default_threads, element_size, room, untile};
use crate::transform::{Access, Step, steps};
use ckpt_api::{
    Checkpoint, Contents, Encoding, Error, FormatInfo, Loss, LossKind, OutputFile, Placed, Placement, Repair,
    Result, Tensor, Window,
};
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// What a conversion will do. Its JSON Schema is `schemas/plan.schema.json`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Format of the source.
    pub from: &'static str,
    /// Format of the target.
    pub to: &'static str,
    /// Tensors left out because the user said so.
    pub excluded: Vec<String>,
    /// What the target cannot carry.
    pub losses: Vec<Loss>,
    /// Bytes of tensor data read.
    pub bytes_read: u64,
    /// Bytes of tensor data written.
    pub bytes_written: u64,
    /// Bytes of memory that the executor will hold at most, headers included.
    pub peak_memory: u64,
    /// Threads that will be used.
    pub threads: usize,
    pub(crate) budget: Budget,
    pub(crate) contents: Arc<Contents>,
    pub(crate) placed: Arc<Placed>,
    ways: Vec<Way>,
}

impl Plan {
    /// Files of the source that jobs refer to.
    pub fn sources(&self) -> &[String] {
        &self.contents.files
    }

    /// Files that will exist.
    pub fn files(&self) -> &[OutputFile] {
        &self.placed.files
    }

    /// What a lenient reading mended.
    pub fn repairs(&self) -> &[Repair] {
        &self.contents.repairs
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.contents.notes
    }

    /// One for every tensor that is written, in the order in which the source stores them.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = Job<'_>> + Clone {
        self.ways.iter().map(|way| self.job(way))
    }

    /// Some of the jobs.
    pub(crate) fn jobs_in(&self, range: Range<usize>) -> impl Iterator<Item = Job<'_>> {
        self.ways.get(range).unwrap_or_default().iter().map(|way| self.job(way))
    }

    fn job<'a>(&'a self, way: &'a Way) -> Job<'a> {
        let Way { number, steps, access } = way;
        let to = &self.placed.placements[*number];
        let Contents { checkpoint, placements, .. } = &*self.contents;
        Job {
            tensor: &checkpoint.tensors[to.tensor.0].name,
            from: &placements[to.tensor.0],
            added: to.added.iter().map(|added| &placements[added.tensor.0]).collect(),
            steps,
            access: *access,
            to,
            number: *number,
        }
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Said<'a> {
            from: &'a str,
            to: &'a str,
            sources: &'a [String],
            files: &'a [OutputFile],
            jobs: Vec<Job<'a>>,
            excluded: &'a [String],
            losses: &'a [Loss],
            repairs: &'a [Repair],
            notes: &'a [String],
            bytes_read: u64,
            bytes_written: u64,
            peak_memory: u64,
            threads: usize,
        }
        let said = Said {
            from: self.from,
            to: self.to,
            sources: self.sources(),
            files: self.files(),
            jobs: self.jobs().collect(),
            excluded: &self.excluded,
            losses: &self.losses,
            repairs: self.repairs(),
            notes: self.notes(),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            peak_memory: self.peak_memory,
            threads: self.threads,
        };
        said.serialize(serializer)
    }
}

/// One tensor's way from source to target.
#[derive(Clone, Debug, Serialize)]
pub struct Job<'a> {
    /// The tensor's name in the checkpoint, after mapping.
    pub tensor: &'a str,
    /// Where its bytes are.
    pub from: &'a Placement,
    /// Where the bytes are of what is added, parallel to `to.added`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<&'a Placement>,
    /// What happens to them.
    pub steps: &'a [Step],
    /// How the steps touch memory.
    pub access: Access,
    /// Where they go.
    pub to: &'a Placement,
    /// Position of `to` among the codec's placements.
    #[serde(skip)]
    pub(crate) number: usize,
}

/// What a plan holds of a job: there can be many, and the rest is known already.
#[derive(Clone, Debug)]
struct Way {
    /// Position among the codec's placements.
    number: usize,
    steps: Vec<Step>,
    access: Access,
}

/// What may be used.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Bytes of memory.
    pub max_memory: u64,
    /// Threads; 0 for as many as there are processors, at most 4.
    pub threads: usize,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { max_memory: 256 << 20, threads: 0 }
    }
}

/// Which losses the user accepts.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Accept every loss.
    pub allow_all: bool,
    /// Accept these although they change what the model computes.
    pub allow: BTreeSet<LossKind>,
    /// Stop at losses that change nothing in what the model computes, too.
    pub strict: bool,
}

impl Policy {
    /// Accepts the loss called `name`, or all of them for `all`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], listing the known kinds.
    pub fn accept(&mut self, name: &str) -> Result<()> {
        if name == "all" {
            self.allow_all = true;
            return Ok(());
        }
        let kind = LossKind::from_name(name).ok_or_else(|| {
            let known = LossKind::ALL.iter().map(|kind| kind.name()).chain(["all"]);
            Error::usage("unknown kind of loss")
                .field("--allow")
                .found(format!("'{name}'"))
                .help(ckpt_api::nearest(name, known))
        })?;
        self.allow.insert(kind);
        Ok(())
    }

    fn refuses(&self, kind: LossKind) -> bool {
        !self.allow_all && !self.allow.contains(&kind) && (self.strict || kind.changes_function())
    }

    /// Stops a conversion that would lose what the user did not accept.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Lossy`], naming the losses and how to accept them.
    pub fn judge(&self, losses: &[Loss]) -> Result<()> {
        const SHOWN: usize = 4;
        let refused: Vec<&Loss> = losses.iter().filter(|loss| self.refuses(loss.kind)).collect();
        let Some(first) = refused.first() else { return Ok(()) };
        let mut shown: Vec<String> = refused
            .iter()
            .take(SHOWN)
            .map(|loss| format!("{} '{}' ({})", loss.kind.name(), loss.subject, loss.detail))
            .collect();
        if refused.len() > SHOWN {
            shown.push(format!("and {} more", refused.len() - SHOWN));
        }
        let kinds: BTreeSet<&str> = refused.iter().map(|loss| loss.kind.name()).collect();
        let flags: Vec<String> = kinds.iter().map(|kind| format!("--allow {kind}")).collect();
        let message = if first.kind.changes_function() {
            "the target would not compute the same as the source"
        } else {
            "the target cannot carry everything, and --strict forbids that"
        };
        Err(Error::lossy(message)
            .found(shown.join("; "))
            .help(format!("accept it with {}, or leave tensors out with --exclude", flags.join(" "))))
    }
}

/// Everything a plan is made from.
pub(crate) struct Parts<'a> {
    pub(crate) from: &'static str,
    pub(crate) to: &'a FormatInfo,
    pub(crate) contents: Arc<Contents>,
    pub(crate) placed: Placed,
    pub(crate) excluded: Vec<String>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) resources: Resources,
    /// Whether the output will be read back.
    pub(crate) reread: bool,
}

impl Plan {
    /// Derives the jobs from where tensors are and where they go.
    pub(crate) fn new(parts: Parts) -> Result<Plan> {
        let Parts { from, to, contents, placed, excluded, mut losses, resources, reread } = parts;
        placed.check(&contents.checkpoint)?;
        losses.extend(placed.losses.iter().cloned());
        losses.extend(unspoken(&contents.checkpoint, to, &losses));
        let ways = ways(&contents, &placed)?;
        let mut plan = Plan {
            from,
            to: to.id,
            excluded,
            losses,
            bytes_read: 0,
            bytes_written: 0,
            peak_memory: 0,
            threads: 0,
            budget: Budget::default(),
            contents,
            placed: Arc::new(placed),
            ways,
        };
        plan.bytes_read = plan.jobs().fold(0, |sum, job| sum.saturating_add(bytes(job.from)));
        plan.bytes_written = plan.jobs().fold(0, |sum, job| sum.saturating_add(bytes(job.to)));
        let sizes = plan.jobs().map(|job| (bytes(job.from).max(bytes(job.to)), job.access == Access::Tile));
        let shared = share(resources, &Held::new(&plan, reread), sizes, room())?;
        (plan.budget, plan.threads, plan.peak_memory) = shared;
        Ok(plan)
    }
}

/// Bytes of all extents.
fn bytes(placement: &Placement) -> u64 {
    placement.extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.len))
}

/// The way to each placement, in the order of the source's bytes: another order costs many times as much on a cold cache.
fn ways(contents: &Contents, placed: &Placed) -> Result<Vec<Way>> {
    let mut ways = Vec::with_capacity(placed.placements.len());
    for (number, target) in placed.placements.iter().enumerate() {
        ways.push(way(contents, number, target)?);
    }
    let source = |way: &Way| placed.placements.get(way.number).map(|target| target.tensor.0);
    let extents = |way: &Way| contents.placements.get(source(way)?).map(|placement| &placement.extents);
    let place = |way: &Way| extents(way)?.first().map(|extent| (extent.file, extent.offset));
    ways.sort_unstable_by_key(|way| (place(way), way.number));
    Ok(ways)
}

/// What the target's format cannot hold by its own account, and its codec does not name: nothing is lost silently.
fn unspoken(checkpoint: &Checkpoint, to: &FormatInfo, losses: &[Loss]) -> Vec<Loss> {
    let told = |kind, subject: Option<&str>| {
        losses.iter().any(|loss| loss.kind == kind && subject.is_none_or(|subject| loss.subject == subject))
    };
    let mut found = Vec::new();
    if to.free_metadata {
        return found;
    }
    let why = format!("format '{}' has no place for it", to.id);
    if checkpoint.graph.is_some() && to.ops.is_empty() && !told(LossKind::GraphDropped, None) {
        found.push(Loss::new(LossKind::GraphDropped, "graph", &why));
    }
    for (namespace, _) in checkpoint.metadata.iter().filter(|(namespace, _)| *namespace != to.id) {
        if !told(LossKind::MetadataDropped, Some(namespace)) {
            found.push(Loss::new(LossKind::MetadataDropped, namespace, &why));
        }
    }
    found
}

fn way(contents: &Contents, number: usize, target: &Placement) -> Result<Way> {
    let (tensor, source) = contents.tensor_at(target.tensor)?;
    let added = target.added.iter().map(|added| contents.tensor_at(added.tensor));
    let added = added.collect::<Result<Vec<_>>>()?;
    let pairs = added.iter().zip(&target.added);
    let addends: Vec<Addend> =
        pairs.map(|((tensor, source), added)| Addend::new(tensor, source, &added.axes)).collect();
    let way = untile(tensor, source, &addends, &target.encoding, None)?;
    let mut steps = match &way {
        Some(way) => way_steps(&way.tensor, &way.source, &way.target, target, &added)?,
        None => way_steps(tensor, source, &target.encoding, target, &added)?,
    };
    let stored = |encoding: &Encoding| {
        let expanded = encoding.expanded(&tensor.shape).unwrap_or_default();
        expanded.permuted(&encoding.order)
    };
    // What is cut out of a whole has no stored shape of its own.
    if let Some(way) = way.as_ref().filter(|_| source.window.is_none()) {
        let (own, parts) = (stored(&source.encoding), way.tensor.shape.permuted(&way.source.encoding.order));
        if own != parts {
            steps.insert(0, Step::Reshape { from: own, to: parts });
        }
    }
    let last = way
        .as_ref()
        .map_or_else(|| stored(&target.encoding), |way| way.tensor.shape.permuted(&way.target.order));
    let stated = target.shape.clone().unwrap_or_else(|| stored(&target.encoding));
    if stated != last {
        steps.push(Step::Reshape { from: last, to: stated });
    }
    let kept = keeps_slices(source, target);
    let cut = !kept && target.extents.iter().any(|extent| extent.region.is_some());
    let tiled = cut || steps.iter().any(|step| step.access() == Access::Tile);
    if tiled {
        element_size(&source.encoding, &target.encoding, tensor)?;
    }
    let access = if tiled { Access::Tile } else { Access::Stream };
    Ok(Way { number, steps, access })
}

/// The steps from a source to an encoding, neither of which has tiles.
fn way_steps(
    tensor: &Tensor,
    source: &Placement,
    encoding: &Encoding,
    target: &Placement,
    added: &[(&Tensor, &Placement)],
) -> Result<Vec<Step>> {
    let names: Vec<String> = added.iter().map(|(tensor, _)| tensor.name.clone()).collect();
    let kept = keeps_slices(source, target);
    let slices = source.extents.iter().filter(|extent| extent.region.is_some() && !kept).count();
    let mut steps =
        steps(&source.encoding, encoding, slices, &names).map_err(|error| error.tensor(&tensor.name))?;
    if let Some(window) = &source.window {
        let Window { start, whole } = Window::clone(window);
        steps.insert(0, Step::Cut { start, shape: tensor.shape.clone(), whole });
    }
    Ok(steps)
}

/// Whether the target's slices are the source's.
fn keeps_slices(source: &Placement, target: &Placement) -> bool {
    source.window.is_none()
        && source.encoding.order == target.encoding.order
        && source.encoding.tiles == target.encoding.tiles
        && source.extents.iter().map(|extent| &extent.region).eq(target.extents.iter().map(|e| &e.region))
}

/// What the process holds before the first worker starts: code, stacks, allocator.
const BASE: u64 = 6 << 20;
/// What describes one tensor, on both sides.
const PER_TENSOR: u64 = 2 << 10;
/// What describes one further stored piece of a tensor, on both sides.
const PER_EXTENT: u64 = 512;
/// How many times a name is held: in the checkpoint, the source, the target, a header.
const NAMES: u64 = 4;

/// What may be mapped beside all that, for what is allocated in pieces.
const MARGIN: u64 = 1 << 20;

/// Bytes that are in memory whatever the workers do: the process, descriptions and headers.
struct Held {
    /// At most, until all is done.
    all: u64,
    /// Of that, what is mapped after planning.
    ahead: u64,
}

impl Held {
    fn new(plan: &Plan, reread: bool) -> Self {
        let placed = &plan.placed;
        let blocks: u64 = placed.blocks.iter().map(|block| block.bytes.len() as u64).sum();
        let job = |job: Job| {
            let extents = (job.from.extents.len() + job.to.extents.len()) as u64;
            PER_TENSOR + PER_EXTENT * extents.saturating_sub(2) + NAMES * job.tensor.len() as u64
        };
        let once = 2 * (blocks + placed.draft.len() as u64) + plan.jobs().map(job).sum::<u64>();
        let again = if reread { once } else { 0 };
        Held { all: BASE + once + again, ahead: MARGIN + once / 4 + again }
    }
}

/// Shares the memory among as many threads as are wanted, useful, and have room.
///
/// `jobs` says of each how many bytes it moves, and whether in tiles.
fn share(
    resources: Resources,
    held: &Held,
    jobs: impl ExactSizeIterator<Item = (u64, bool)> + Clone,
    room: Option<u64>,
) -> Result<(Budget, usize, u64)> {
    let fixed = held.all;
    let wanted = match resources.threads {
        0 => default_threads(),
        threads => threads,
    };
    let peak =
        |budget: Budget| jobs.clone().map(|(bytes, tiled)| budget.peak(bytes, tiled)).max().unwrap_or(0);
    let mapped = |threads: u64| match room {
        None => u64::MAX,
        Some(room) => room.saturating_sub(held.ahead + PER_THREAD * (threads - 1)),
    };
    let left = |threads: u64| resources.max_memory.saturating_sub(fixed).min(mapped(threads));
    let most = wanted.clamp(1, jobs.len().max(1));
    let fitting = (1..=most).rev().find_map(|threads| {
        let budget = Budget::of(left(threads as u64) / threads as u64)?.among(threads);
        Some((budget, threads, fixed + peak(budget) * threads as u64))
    });
    fitting.ok_or_else(|| match resources.max_memory.saturating_sub(fixed) < Budget::LEAST {
        true => Error::limit("the conversion does not fit into the memory allowed")
            .found(format!("--max-memory {}", resources.max_memory))
            .expected(format!("at least {}", fixed + Budget::LEAST))
            .help(format!("give it --max-memory {}m", (fixed + Budget::LEAST).div_ceil(1 << 20))),
        false => Error::limit("the conversion does not fit into the address space that the system allows")
            .found(format!("{} bytes left", room.unwrap_or_default()))
            .expected(format!("at least {}", held.ahead + Budget::LEAST))
            .help("allow more with ulimit -v"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_changes_the_function_stops_unless_it_is_allowed_by_name() {
        let losses = [Loss::new(LossKind::WeightDropped, "w", "no place")];
        let mut policy = Policy::default();
        let error = policy.judge(&losses).unwrap_err();
        assert!(error.to_string().contains("--allow weight-dropped"), "{error}");
        policy.accept("weight-dropped").unwrap();
        policy.judge(&losses).unwrap();
    }

    #[test]
    fn a_harmless_loss_stops_only_a_strict_conversion() {
        let losses = [Loss::new(LossKind::CounterDropped, "step", "no place")];
        let mut policy = Policy::default();
        policy.judge(&losses).unwrap();
        policy.strict = true;
        assert_eq!(policy.judge(&losses).unwrap_err().kind(), ckpt_api::Kind::Lossy);
        policy.accept("all").unwrap();
        policy.judge(&losses).unwrap();
    }

    #[test]
    fn an_unknown_loss_lists_the_known_ones() {
        let error = Policy::default().accept("weights-dropped").unwrap_err();
        assert!(error.to_string().contains("did you mean 'weight-dropped'"), "{error}");
    }

    #[test]
    fn a_graph_or_metadata_that_the_target_cannot_hold_is_lost_aloud_even_if_its_codec_is_silent() {
        static PLAIN: FormatInfo = FormatInfo {
            id: "plain",
            title: "",
            extensions: &[],
            reads: &[],
            writes: ckpt_api::Network::ALL,
            dtypes: &[],
            ops: &[],
            free_names: true,
            free_metadata: false,
            options: &[],
        };
        let mut checkpoint = Checkpoint { graph: Some(ckpt_api::Graph::default()), ..Checkpoint::default() };
        for namespace in ["nn", "plain"] {
            checkpoint.metadata.insert(namespace, "key", "value");
        }
        let found = unspoken(&checkpoint, &PLAIN, &[]);
        let subjects: Vec<&str> = found.iter().map(|loss| loss.subject.as_str()).collect();
        assert_eq!(subjects, ["graph", "nn"]);
        assert_eq!(unspoken(&checkpoint, &PLAIN, &found), []);
        let rich = FormatInfo { free_metadata: true, ..PLAIN.clone() };
        assert_eq!(unspoken(&checkpoint, &rich, &[]), []);
    }

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_would_do() {
        let resources = Resources { max_memory: 1 << 20, threads: 2 };
        let held = Held { all: BASE, ahead: MARGIN };
        let error = share(resources, &held, std::iter::empty(), None).unwrap_err().to_string();
        let least = BASE + Budget::LEAST;
        assert!(error.contains(&format!("at least {least}")), "{error}");
        share(Resources { max_memory: least, threads: 2 }, &held, std::iter::empty(), None).unwrap();
    }

    #[test]
    fn too_little_address_space_is_refused_with_the_least_that_would_do() {
        let held = Held { all: BASE, ahead: MARGIN };
        let error =
            share(Resources::default(), &held, std::iter::empty(), Some(MARGIN)).unwrap_err().to_string();
        let least = MARGIN + Budget::LEAST;
        assert!(error.contains(&format!("at least {least}")) && error.contains("ulimit -v"), "{error}");
        share(Resources::default(), &held, std::iter::empty(), Some(least)).unwrap();
    }
}
