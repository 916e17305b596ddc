//! Quantized weights that several tensors describe together: elements, and the scales without which they are other numbers.
//!
//! The names, dtypes and shapes of tensors tell such groups. Tensors that are written as they are keep their meaning, and a
//! note says what they are. Elements that are cast, or written without one of the tensors that belong to them, lose it. So do
//! integers of some schemes that stay where a dtype of floats is asked for.

mod scheme;

use crate::words;
use ckpt_api::{Contents, DType, Loss, LossKind, OutputLayout, Placement, Setting, Tensor, Text, text};
use scheme::Scheme;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Elements, and the tensors that belong to them.
#[derive(Debug)]
struct Group<'a> {
    scheme: usize,
    elements: &'a Tensor,
    /// Each with the end of its name.
    others: Vec<(&'a str, &'a Tensor)>,
}

/// The groups of a checkpoint.
#[derive(Debug)]
pub struct Scaled<'a> {
    schemes: Vec<Scheme>,
    groups: Vec<Group<'a>>,
}

/// Finds the groups among tensors.
pub fn find(tensors: &[Tensor]) -> Scaled<'_> {
    let schemes = scheme::all();
    let occurs = |scheme: &Scheme| {
        scheme
            .scales
            .first()
            .is_some_and(|end| tensors.iter().any(|tensor| tensor.name.ends_with(end.as_str())))
    };
    let active: Vec<usize> = (0..schemes.len()).filter(|at| schemes.get(*at).is_some_and(occurs)).collect();
    let mut found = Vec::new();
    if !active.is_empty() {
        let names: HashMap<&str, &Tensor> =
            tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        for elements in tensors {
            let group = |at: &usize| Some((*at, members(schemes.get(*at)?, elements, &names)?));
            if let Some((scheme, others)) = active.iter().find_map(group) {
                found.push((scheme, elements, others));
            }
        }
    }
    let groups =
        found.into_iter().map(|(scheme, elements, others)| Group { scheme, elements, others }).collect();
    Scaled { schemes, groups }
}

/// Returns the tensors that belong to these elements; `None` if they do not fit the scheme.
fn members<'a>(
    scheme: &Scheme,
    elements: &'a Tensor,
    names: &HashMap<&'a str, &'a Tensor>,
) -> Option<Vec<(&'a str, &'a Tensor)>> {
    if !scheme.dtypes.is_empty() && !scheme.dtypes.contains(&elements.dtype) {
        return None;
    }
    let stem = elements.name.strip_suffix(scheme.elements.as_str())?;
    let named = |end: &String| {
        let (name, tensor) = names.get_key_value(format!("{stem}{end}").as_str())?;
        Some((name.get(stem.len()..)?, *tensor))
    };
    let mut others = scheme.scales.iter().map(named).collect::<Option<Vec<_>>>()?;
    let is_scale = |dtype: DType| dtype.is_float() || dtype == DType::U8;
    others.first().filter(|(_, scales)| is_scale(scales.dtype))?;
    others.extend(scheme.more.iter().filter_map(named));
    Some(others)
}

impl Scaled<'_> {
    /// Describes the groups, a note for each kind: what they are, and what multiplies them.
    pub fn notes(&self) -> Vec<Text> {
        self.notes_of(self.groups.iter())
    }

    fn notes_of<'g, 'a: 'g>(&'g self, groups: impl Iterator<Item = &'g Group<'a>>) -> Vec<Text> {
        let mut kinds: BTreeMap<(usize, Text), (usize, &str)> = BTreeMap::new();
        for group in groups {
            let Some(scheme) = self.schemes.get(group.scheme) else { continue };
            let detail = text![format!("with {}; ", group.ends()), group.way_out(scheme)];
            kinds.entry((group.scheme, detail)).or_insert((0, &group.elements.name)).0 += 1;
        }
        let text = |((scheme, detail), (count, first)): ((usize, Text), (usize, &str))| {
            let title = self.schemes.get(scheme).map_or("", |scheme| &scheme.title);
            let tensors = words::count(count, "tensor");
            text![format!("quantized weights ({title}, {tensors}): {} ", words::quote(first)), detail]
        };
        kinds.into_iter().map(text).collect()
    }

    /// Returns a loss for each tensor that is written without what gives its elements their meaning, and a note on those
    /// that are written as they are.
    ///
    /// `asked` is the dtype of floats that the user asked for, and `made_of` has the sources of what a mapping made.
    pub(crate) fn judge(
        &self,
        asked: Option<DType>,
        made_of: &BTreeMap<String, Vec<String>>,
        mapped: &Contents,
        placed: &OutputLayout,
    ) -> (Vec<Loss>, Vec<Text>) {
        if self.groups.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let output = Output::new(self, made_of, mapped, placed);
        let (mut losses, mut kept) = (Vec::new(), Vec::new());
        for group in &self.groups {
            let Some(scheme) = self.schemes.get(group.scheme) else { continue };
            let Some((target, problem)) = output.fate(group) else { continue };
            let problem = problem.or_else(|| integers_that_stay(asked, scheme, group));
            match problem {
                None => kept.push(group),
                Some(problem) => {
                    let way_out = group.way_out(scheme);
                    let detail = text![format!("quantized ({}): {problem}; ", scheme.title), way_out];
                    losses.push(Loss::new(LossKind::ScaleDropped, target, detail));
                }
            }
        }
        (losses, self.notes_of(kept.into_iter()))
    }
}

/// What is lost if the user asks for floats, and integers stay.
fn integers_that_stay(asked: Option<DType>, scheme: &Scheme, group: &Group<'_>) -> Option<String> {
    let asked = asked.filter(|asked| scheme.stops_float_dtype && asked.is_float())?;
    let own = group.elements.dtype;
    Some(format!("{own} elements stay beside {}, and do not become {asked}", group.ends()))
}

impl Group<'_> {
    /// The built-in mapping that multiplies elements and scales.
    fn mapping<'s>(&self, scheme: &'s Scheme) -> Option<&'s str> {
        let (_, scales) = self.others.first()?;
        scheme.mapping_for(&self.elements.shape, &scales.shape)
    }

    /// Says how to get numbers of elements and scales.
    fn way_out(&self, scheme: &Scheme) -> Text {
        match self.mapping(scheme) {
            _ if scheme.decodes => text![
                "a dtype of floats, such as with ",
                Setting::DTYPE.of("bf16"),
                ", decodes them if the configuration beside them states how they are packed"
            ],
            Some(name) => {
                text![
                    format!("the built-in mapping {name}, given with "),
                    Setting::MAPPING,
                    ", multiplies them"
                ]
            }
            None => "nothing here decodes them".into(),
        }
    }

    /// The names of all members.
    fn names(&self) -> impl Iterator<Item = &str> {
        let tensors = self.others.iter().map(|(_, tensor)| *tensor).chain([self.elements]);
        tensors.map(|tensor| tensor.name.as_str())
    }

    fn ends(&self) -> String {
        self.others.iter().map(|(end, _)| words::quote(end)).collect::<Vec<_>>().join(", ")
    }
}

/// Where the members of groups are in the output.
struct Output<'a> {
    /// The targets that are made of each member, and all sources of these targets.
    targets: HashMap<&'a str, Vec<(&'a Tensor, &'a [String])>>,
    /// The placements of tensors, by name.
    placements: HashMap<&'a str, Vec<&'a Placement>>,
}

impl<'a> Output<'a> {
    fn new(
        scaled: &Scaled<'_>,
        made_of: &'a BTreeMap<String, Vec<String>>,
        mapped: &'a Contents,
        placed: &'a OutputLayout,
    ) -> Self {
        let members: HashSet<&str> = scaled.groups.iter().flat_map(Group::names).collect();
        let mut output = Output { targets: HashMap::new(), placements: HashMap::new() };
        let tensors = &mapped.checkpoint.tensors;
        for tensor in tensors {
            let sources = made_of.get(tensor.name.as_str()).map_or(&[][..], Vec::as_slice);
            let own = sources.is_empty().then_some(tensor.name.as_str());
            for source in sources.iter().map(String::as_str).chain(own).filter(|name| members.contains(*name))
            {
                output.targets.entry(source).or_default().push((tensor, sources));
            }
        }
        let relevant: HashSet<&str> =
            output.targets.values().flatten().map(|(tensor, _)| tensor.name.as_str()).collect();
        for placement in &placed.placements {
            let name = tensors.get(placement.tensor.0).map(|tensor| tensor.name.as_str());
            if let Some(name) = name.filter(|name| relevant.contains(name)) {
                output.placements.entry(name).or_default().push(placement);
            }
        }
        output
    }

    /// Returns the target that has a group's elements, and what it loses; `None` if no target has them without scales.
    fn fate(&self, group: &Group<'_>) -> Option<(&'a str, Option<String>)> {
        let targets = self.targets.get(group.elements.name.as_str())?;
        let is_combined = |sources: &[String]| {
            group.others.iter().any(|(_, other)| sources.iter().any(|source| **source == *other.name))
        };
        let (target, _) = targets.iter().find(|(_, sources)| !is_combined(sources))?;
        let (own, dtype) = (group.elements.dtype, self.dtype(target)?);
        if dtype != own {
            return Some((
                &target.name,
                Some(format!("{own} elements become {dtype} without {}", group.ends())),
            ));
        }
        let problem = group.others.iter().find_map(|(end, other)| {
            let kept = self.targets.get(other.name.as_str()).into_iter().flatten();
            let stored: Vec<_> =
                kept.filter_map(|(tensor, _)| Some((tensor.dtype, self.dtype(tensor)?))).collect();
            let end = words::quote(end);
            match stored.first() {
                None => Some(format!("{end} is not written with the {own} elements")),
                // A target without the dtype may store it as one that holds all values, but a cast is none of its own.
                Some((mapped, _)) if *mapped != other.dtype => {
                    Some(format!("{end} becomes {mapped}, and the {own} elements stay"))
                }
                Some((_, stored))
                    if *stored != other.dtype && !crate::transform::exact(other.dtype, *stored) =>
                {
                    Some(format!("{end} becomes {stored}, and the {own} elements stay"))
                }
                _ => None,
            }
        });
        Some((&target.name, problem))
    }

    /// The dtype that a tensor is stored with; `None` if it has no place.
    fn dtype(&self, tensor: &Tensor) -> Option<DType> {
        let placements = self.placements.get(tensor.name.as_str())?;
        let own = placements.iter().map(|placement| placement.encoding.dtype);
        own.clone().find(|dtype| *dtype == tensor.dtype).or(own.min())
    }
}

#[cfg(test)]
mod tests;
