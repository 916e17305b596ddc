//! Parses a `[[rule]]` of a mapping file.

use super::definition::Roles;
use super::relation::{Relation, Stack};
use super::rule::Rule;
use super::sizes::{Size, SizeText, check_lengths};
use crate::pattern::{Class, Part, Pattern, is_name};
use crate::recipe::{AxisStep, Dequantize, Division, MAX_AXES, Parts, ScaledFormat};
use crate::words::quote;
use ckpt_api::{DType, Error, Limit, Limits, Result, nearest};
use serde::de::{Deserializer, SeqAccess, Visitor, value::SeqAccessDeserializer};
use std::collections::BTreeMap;
use toml::Spanned;

/// A `[[rule]]` as TOML has it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    from: Spanned<Names>,
    to: Spanned<Names>,
    role: Option<Spanned<String>>,
    steps: Option<Spanned<Vec<String>>>,
    part_steps: Option<Spanned<Vec<Vec<String>>>>,
    whole: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    interleaved: bool,
    split: Option<Spanned<u64>>,
    merge: Option<Spanned<u64>>,
    sizes: Option<Spanned<Vec<SizeText>>>,
    stack: Option<Spanned<String>>,
    unstack: Option<Spanned<String>>,
    stack_axis: Option<Spanned<u64>>,
    stack_count: Option<Spanned<String>>,
    dequantize: Option<Spanned<String>>,
    block: Option<Spanned<Vec<u64>>>,
    dtype: Option<Spanned<String>>,
    #[serde(default)]
    tie: bool,
    #[serde(default)]
    sum: bool,
    #[serde(default = "yes")]
    inverse: bool,
}

fn yes() -> bool {
    true
}

/// The surroundings of a rule.
pub(super) struct Context<'a> {
    pub(super) lines: &'a Lines,
    /// The number of the rule, from 1.
    pub(super) number: usize,
    pub(super) roles: &'a Roles,
    pub(super) limits: &'a Limits,
}

impl Context<'_> {
    fn error(&self, key: &str, start: usize, error: Error) -> Error {
        error.field(format!("line {}, rule {}, {key}", self.lines.of(start), self.number))
    }
}

/// The ends of the lines of a text.
pub(super) struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Lines { ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// Returns the number of the line that contains a byte.
    pub(super) fn of(&self, start: usize) -> usize {
        self.ends.partition_point(|end| *end < start) + 1
    }
}

impl RuleText {
    /// Returns the role that the rule names.
    pub(super) fn role(&self) -> Option<&str> {
        self.role.as_ref().map(|role| role.get_ref().as_str())
    }

    /// Parses the rule.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`], and [`ckpt_api::Kind::Limit`], with the line and the key.
    pub(super) fn parse(&self, context: &Context) -> Result<Rule> {
        let sizes = self.sizes(context)?;
        let relation = self.relation(context, sizes.iter().map(Size::value).collect())?;
        let counts = (self.from.get_ref().texts.len(), self.to.get_ref().texts.len());
        check_counts(&relation, counts, context.limits)
            .map_err(|error| context.error("from", self.from.span().start, error))?;
        let from = self.sources(context)?;
        let captures = self.captures(&relation, context, &from)?;
        let to = self.targets(context, captures.as_ref())?;
        let counted_by = self.counter(context, from.first())?;
        let relation_parts = (relation.clone(), from.len().max(to.len()));
        Ok(Rule {
            line: Some(context.lines.of(self.from.span().start)),
            from,
            to,
            relation,
            role: self.role().map(str::to_owned),
            steps: self.steps(context)?,
            division: self.division(context, &relation_parts)?,
            sizes: if sizes.iter().any(|size| size.parameters().next().is_some()) {
                sizes
            } else {
                Vec::new()
            },
            counted_by,
            invertible: self.inverse,
        })
    }

    fn sources(&self, context: &Context) -> Result<Vec<Pattern>> {
        let at = |text: &str, error| {
            context.error(&format!("from = {}", quote(text)), self.from.span().start, error)
        };
        let texts = &self.from.get_ref().texts;
        let mut forms: Vec<Pattern> = Vec::with_capacity(texts.len());
        for text in texts {
            let form = Pattern::source(text, context.limits).map_err(|error| at(text, error))?;
            let captures: BTreeMap<_, _> =
                form.captures().map(|(name, class)| (name, class.name())).collect();
            let first = forms.first().unwrap_or(&form).captures();
            let first: BTreeMap<_, _> = first.map(|(name, class)| (name, class.name())).collect();
            if captures != first {
                return Err(at(
                    text,
                    Error::mapping("the patterns in 'from' have different captures")
                        .found(listed(&captures))
                        .expected(format!("{}, as in the first pattern", listed(&first))),
                ));
            }
            if forms.iter().any(|other| other.shape() == form.shape()) {
                return Err(at(text, Error::mapping("two patterns in 'from' match exactly the same names")));
            }
            forms.push(form);
        }
        Ok(forms)
    }

    /// Returns the captures that targets may use: those of the sources, and the index of the elements that a stack is
    /// divided into.
    fn captures(&self, relation: &Relation, context: &Context, from: &[Pattern]) -> Result<Option<Pattern>> {
        let mut captures = from.first().cloned();
        let (key, text, class) = match (&self.stack, &self.unstack) {
            (Some(index), _) => {
                ("stack", index, captures.as_ref().and_then(|from| from.class_of(index.get_ref())))
            }
            (_, Some(index)) => ("unstack", index, None),
            _ => return Ok(captures),
        };
        let wrong = |message: &str, expected: &str| {
            let error = Error::mapping(message).found(quote(text.get_ref())).expected(expected);
            Err(context.error(key, text.span().start, error))
        };
        match relation {
            Relation::Stack(_) if !class.is_some_and(Class::is_number) => wrong(
                "'stack' does not name the number of an element",
                "the name of a capture of 'from' that is a number, such as expert for {expert:int}",
            ),
            Relation::Unstack(Stack { index, .. }) => {
                let Some(pattern) = captures.as_mut() else { return Ok(captures) };
                if pattern.class_of(index).is_some() || !is_name(index) {
                    return wrong(
                        "'unstack' does not name the number of an element",
                        "the name of a capture that 'from' does not have and 'to' writes, such as expert for {expert}",
                    );
                }
                pattern.parts.push(Part::Capture { name: index.clone(), class: Class::Int, shift: 0 });
                Ok(captures)
            }
            _ => Ok(captures),
        }
    }

    fn targets(&self, context: &Context, from: Option<&Pattern>) -> Result<Vec<Pattern>> {
        let at =
            |text: &str, error| context.error(&format!("to = {}", quote(text)), self.to.span().start, error);
        let mut forms: Vec<Pattern> = Vec::new();
        for text in &self.to.get_ref().texts {
            let Some(source) = from else { break };
            let form = Pattern::target(text, source, context.limits).map_err(|error| at(text, error))?;
            if let Some(problem) = self.stack_problem(&form) {
                return Err(at(text, problem));
            }
            if forms.contains(&form) {
                return Err(at(
                    text,
                    Error::mapping("'to' has the same name twice").help("give each target its own name"),
                ));
            }
            forms.push(form);
        }
        Ok(forms)
    }

    /// Returns what is wrong with how a target writes the number of an element.
    fn stack_problem(&self, form: &Pattern) -> Option<Error> {
        let uses = |index: &str| form.captures().filter(|(name, _)| *name == index).count();
        match (&self.stack, &self.unstack) {
            (Some(index), _) if uses(index.get_ref()) > 0 => Some(
                Error::mapping("the name of a stack has the number of an element")
                    .help("leave it out of 'to': the stack has all elements"),
            ),
            (_, Some(index)) if uses(index.get_ref()) != 1 || form.shift_of(index.get_ref()) != 0 => Some(
                Error::mapping("the names of the elements of a stack need their number")
                    .expected(format!("{{{}}} once in each name, without a shift", index.get_ref())),
            ),
            _ => None,
        }
    }

    /// Parses the name of the tensor that has as many indices as the stack has elements.
    fn counter(&self, context: &Context, from: Option<&Pattern>) -> Result<Option<Pattern>> {
        let (Some(text), Some(from)) = (&self.stack_count, from) else { return Ok(None) };
        let at = |error| context.error("stack_count", text.span().start, error);
        let Some(index) = &self.stack else {
            return Err(at(Error::mapping("a rule has stack_count, but no stack")
                .help("remove it; the length of the axis is the number of tensors that a rule unstacks")));
        };
        let form = Pattern::target(text.get_ref(), from, context.limits).map_err(at)?;
        if form.captures().any(|(name, _)| name == index.get_ref()) {
            return Err(at(Error::mapping("'stack_count' has the number of an element")
                .found(quote(text.get_ref()))
                .expected("the name of one tensor for the whole stack, such as a router's")));
        }
        Ok(Some(form))
    }

    fn steps(&self, context: &Context) -> Result<Vec<AxisStep>> {
        match (&self.role, &self.steps) {
            (None, None) => Ok(Vec::new()),
            (Some(role), Some(_)) => Err(context.error(
                "role",
                role.span().start,
                Error::mapping("a rule has both a role and steps")
                    .help("move the steps to [roles], or remove the role"),
            )),
            (None, Some(steps)) => parse_steps(steps.get_ref(), context.limits)
                .map_err(|error| context.error("steps", steps.span().start, error)),
            (Some(role), None) => context.roles.get(role.get_ref()).cloned().ok_or_else(|| {
                let known = context.roles.keys().map(String::as_str);
                let error = Error::mapping("a rule names a role that [roles] does not have")
                    .found(quote(role.get_ref()))
                    .help(nearest(role.get_ref(), known));
                context.error("role", role.span().start, error)
            }),
        }
    }

    /// Returns how the parts are in the whole.
    fn division(&self, context: &Context, (relation, parts): &(Relation, usize)) -> Result<Division> {
        let takes_turns = matches!(relation, Relation::Dequantize(how) if how.split.is_some());
        let is_divided = matches!(relation, Relation::Split { .. } | Relation::Merge { .. });
        let whole = self.whole.as_ref().map(|steps| ("whole", steps.span().start));
        let each = self.part_steps.as_ref().map(|steps| ("part_steps", steps.span().start));
        let interleaved = self.interleaved.then_some(("interleaved", self.from.span().start));
        let alone = whole.or(each).or(interleaved.filter(|_| !takes_turns));
        if let Some((key, start)) = alone.filter(|_| !is_divided) {
            let error = Error::mapping(format!("a rule has {key}, but no split or merge"));
            let error =
                error.help("it is for rules with split = AXIS or merge = AXIS, without stack or unstack");
            return Err(context.error(key, start, error));
        }
        if let Some((key, start)) = interleaved.filter(|_| self.sizes.is_some()) {
            let error = Error::mapping("parts that are interleaved have sizes")
                .help("remove 'sizes': they are equal");
            return Err(context.error(key, start, error));
        }
        let moves = |steps: &[String]| {
            let parsed = parse_steps(steps, context.limits)?;
            match parsed.iter().find(|step| !step.only_moves_axes()) {
                None => Ok(parsed),
                Some(step) => {
                    Err(Error::mapping("this step cannot be taken on a whole, or on one part alone")
                        .found(quote(&step.to_string()))
                        .expected("transpose, permute, squeeze, unsqueeze or reshape"))
                }
            }
        };
        let mut division = Division { is_interleaved: self.interleaved, ..Division::default() };
        if let Some(whole) = &self.whole {
            let steps = moves(whole.get_ref());
            division.whole = steps.map_err(|error| context.error("whole", whole.span().start, error))?;
        }
        if let Some(each) = &self.part_steps {
            let at = |error: Error| context.error("part_steps", each.span().start, error);
            if each.get_ref().len() != *parts || self.steps.is_some() || self.role.is_some() {
                return Err(at(Error::mapping("'part_steps' does not fit the rule")
                    .found(format!("{} lists of steps", each.get_ref().len()))
                    .expected(format!("a list for each of {parts} parts, and no steps or role beside it"))));
            }
            division.each =
                each.get_ref().iter().map(|steps| moves(steps)).collect::<Result<_>>().map_err(at)?;
        }
        Ok(division)
    }

    fn sizes(&self, context: &Context) -> Result<Vec<Size>> {
        let Some(sizes) = &self.sizes else { return Ok(Vec::new()) };
        let parsed = sizes.get_ref().iter().map(Size::parse).collect::<Result<_>>();
        parsed.map_err(|error| context.error("sizes", sizes.span().start, error))
    }

    /// `values` are the sizes, if the rule has some and all have values.
    fn relation(&self, context: &Context, values: Option<Vec<u64>>) -> Result<Relation> {
        let axis = |key: &str, axis: &Spanned<u64>| match usize::try_from(*axis.get_ref()) {
            Ok(number) if number < MAX_AXES => Ok(number),
            _ => Err(context.error(
                key,
                axis.span().start,
                Error::mapping("the axis is too large")
                    .found(axis.get_ref().to_string())
                    .expected(format!("a number below {MAX_AXES}")),
            )),
        };
        let sizes = values.filter(|_| self.sizes.is_some());
        let parts = |key: &str, number: &Option<Spanned<u64>>, names: &Names| {
            let axis = number.as_ref().map(|number| axis(key, number)).transpose()?;
            Ok::<_, Error>(axis.map(|axis| Parts { axis, parts: names.texts.len(), sizes: sizes.clone() }))
        };
        let split = parts("split", &self.split, self.to.get_ref())?;
        let merge = parts("merge", &self.merge, self.from.get_ref())?;
        let stack_axis = self.stack_axis.as_ref().map(|number| axis("stack_axis", number)).transpose()?;
        let stack = |index: &Spanned<String>, parts| Stack {
            axis: stack_axis.unwrap_or(0),
            index: index.get_ref().clone(),
            parts,
        };
        if let Some(relation) = self.dequantization(context)? {
            return Ok(relation);
        }
        let relation = match (split, merge, &self.stack, &self.unstack, self.tie || self.sum) {
            (None, None, None, None, true) if self.tie && self.sum => return Err(self.several(context)),
            (None, None, None, None, true) if self.sum && self.from.get_ref().texts.len() > 1 => {
                Relation::Sum
            }
            (None, None, None, None, true) if self.sum => Relation::Terms,
            (None, None, None, None, false) => Relation::One,
            (None, None, None, None, true) => Relation::Tie,
            (Some(Parts { axis, sizes, .. }), None, None, None, false) => Relation::Split { axis, sizes },
            (None, Some(Parts { axis, sizes, .. }), None, None, false) => Relation::Merge { axis, sizes },
            (None, parts, Some(index), None, false) => Relation::Stack(stack(index, parts)),
            (parts, None, None, Some(index), false) => Relation::Unstack(stack(index, parts)),
            _ => return Err(self.several(context)),
        };
        if let Some(axis) =
            self.stack_axis.as_ref().filter(|_| self.stack.is_none() && self.unstack.is_none())
        {
            let error = Error::mapping("a rule has stack_axis, but no stack or unstack");
            return Err(context.error("stack_axis", axis.span().start, error));
        }
        if let Some(sizes) = &self.sizes {
            let forms = match &relation {
                Relation::Split { .. } => Some(self.to.get_ref().texts.len()),
                Relation::Merge { .. } => Some(self.from.get_ref().texts.len()),
                Relation::Stack(stack) | Relation::Unstack(stack) => {
                    stack.parts.as_ref().map(|parts| parts.parts)
                }
                _ => None,
            };
            let count = sizes.get_ref().len();
            check_sizes(count, values_of(&relation), forms)
                .map_err(|error| context.error("sizes", sizes.span().start, error))?;
        }
        Ok(relation)
    }

    fn several(&self, context: &Context) -> Error {
        let error = Error::mapping("a rule has more than one of split, merge, stack, unstack, tie and sum").help(
            "write a rule for each, with its own names; only merge and stack, or unstack and split, go together",
        );
        context.error("split, merge, tie", self.from.span().start, error)
    }
}

impl RuleText {
    /// Returns the relation of a rule that dequantizes.
    fn dequantization(&self, context: &Context) -> Result<Option<Relation>> {
        let Some(format) = &self.dequantize else {
            let block = self.block.as_ref().map(|block| ("block", block.span().start));
            let dtype = self.dtype.as_ref().map(|dtype| ("dtype", dtype.span().start));
            return match block.or(dtype) {
                None => Ok(None),
                Some((key, start)) => {
                    let error = Error::mapping(format!("a rule has {key}, but no dequantize"));
                    Err(context.error(
                        key,
                        start,
                        error.help("change dtypes with a step, such as 'cast f32 -> bf16'"),
                    ))
                }
            };
        };
        let at = |key: &str, start: usize, error: Error| Err(context.error(key, start, error));
        let others = [&self.merge, &self.stack_axis].iter().any(|axis| axis.is_some());
        if others
            || self.stack.is_some()
            || self.unstack.is_some()
            || self.sizes.is_some()
            || self.tie
            || self.sum
        {
            let error = Error::mapping("a rule that dequantizes also merges, stacks, ties or has sizes");
            let help = "write a second mapping for it, and convert in two steps";
            return at("dequantize", format.span().start, error.help(help));
        }
        let names = || ScaledFormat::ALL.into_iter().map(ScaledFormat::name);
        let Some(known) = ScaledFormat::ALL.into_iter().find(|known| known.name() == format.get_ref()) else {
            let error = Error::mapping("'dequantize' names an unknown format").found(quote(format.get_ref()));
            let error = error.expected(names().collect::<Vec<_>>().join(" or "));
            return at("dequantize", format.span().start, error.help(nearest(format.get_ref(), names())));
        };
        if let Some(block) = &self.block {
            let lens = block.get_ref();
            if lens.is_empty() || lens.len() > MAX_AXES || lens.contains(&0) || known == ScaledFormat::Mxfp4 {
                let error = Error::mapping("the lengths of a block are wrong").found(format!("{lens:?}"));
                let expected = match known {
                    ScaledFormat::Mxfp4 => "no block: MXFP4 has blocks of 32 elements",
                    ScaledFormat::Scaled => "numbers of at least 1, one for each of the last axes",
                };
                return at("block", block.span().start, error.expected(expected));
            }
        }
        let dtype = match &self.dtype {
            None => DType::F32,
            Some(text) => {
                match text.get_ref().parse().ok().filter(|dtype| Dequantize::DTYPES.contains(dtype)) {
                    Some(dtype) => dtype,
                    None => {
                        let error = Error::mapping("a rule cannot dequantize to this dtype")
                            .found(quote(text.get_ref()));
                        return at("dtype", text.span().start, error.expected("f32, bf16 or f16"));
                    }
                }
            }
        };
        let block = self.block.as_ref().map(|block| block.get_ref().clone());
        let split = self.split.as_ref().and_then(|axis| usize::try_from(*axis.get_ref()).ok());
        let split = split.filter(|axis| *axis < MAX_AXES);
        if split.is_none()
            && let Some(axis) = &self.split
        {
            let error =
                Error::mapping("the axis is too large").expected(format!("a number below {MAX_AXES}"));
            return at("split", axis.span().start, error);
        }
        Ok(Some(Relation::Dequantize(Dequantize { format: known, block, dtype, split })))
    }
}

/// Parses the steps of a rule or a role.
pub(super) fn parse_steps(texts: &[String], limits: &Limits) -> Result<Vec<AxisStep>> {
    limits.check(Limit::RuleSteps, texts.len() as u64)?;
    texts.iter().map(|text| AxisStep::parse(text)).collect()
}

fn check_counts(relation: &Relation, (from, to): (usize, usize), limits: &Limits) -> Result<()> {
    limits.check(Limit::RuleNames, from.max(to) as u64)?;
    let (several, one) = ("a list of at least two names", "one name");
    let (what, expected, fits) = match relation {
        Relation::One => ("a rule", (one, one), from == 1 && to == 1),
        Relation::Split { .. } => ("a split", (one, several), from == 1 && to > 1),
        Relation::Merge { .. } => ("a merge", (several, one), from > 1 && to == 1),
        Relation::Stack(Stack { parts: None, .. }) => {
            ("a stack without merge", (one, one), from == 1 && to == 1)
        }
        Relation::Stack(_) => ("a stack with merge", (several, one), from > 1 && to == 1),
        Relation::Unstack(Stack { parts: None, .. }) => {
            ("an unstack without split", (one, one), from == 1 && to == 1)
        }
        Relation::Unstack(_) => ("an unstack with split", (one, several), from == 1 && to > 1),
        Relation::Dequantize(how) => {
            let (target, fits) = if how.split.is_some() { (several, to > 1) } else { (one, to == 1) };
            ("a rule that dequantizes", ("the names of elements and of scales", target), from == 2 && fits)
        }
        Relation::Tie | Relation::Terms | Relation::Sum => {
            let fits = from.min(to) == 1 && from.max(to) > 1;
            let what = if *relation == Relation::Tie { "a tie" } else { "a sum" };
            (what, (one, "a list of at least two names, or the reverse"), fits)
        }
        // No file states them.
        Relation::Assemble(_) | Relation::Disassemble(_) => ("an assembly", (several, several), true),
    };
    if fits {
        return Ok(());
    }
    let help = match relation {
        Relation::One => "a list needs split = AXIS, merge = AXIS, tie = true or sum = true",
        Relation::Dequantize(_) => {
            "the elements come first, such as from = [\"{name:path}.weight\", \"{name:path}.weight_scale\"]"
        }
        Relation::Stack(_) | Relation::Unstack(_) => {
            "the numbers of the elements make the names; a list is for the parts of one element"
        }
        _ => "a rule that only renames has no split, merge or tie",
    };
    Err(Error::mapping(format!("{what} has the wrong number of names"))
        .found(format!("{from} in 'from', {to} in 'to'"))
        .expected(format!("from: {}; to: {}", expected.0, expected.1))
        .help(help))
}

/// Returns the sizes that a relation has.
fn values_of(relation: &Relation) -> Option<&[u64]> {
    match relation {
        Relation::Split { sizes, .. } | Relation::Merge { sizes, .. } => sizes.as_deref(),
        Relation::Stack(stack) | Relation::Unstack(stack) => stack.parts.as_ref()?.sizes.as_deref(),
        _ => None,
    }
}

fn check_sizes(count: usize, values: Option<&[u64]>, forms: Option<usize>) -> Result<()> {
    let Some(forms) = forms else {
        return Err(Error::mapping("a rule has sizes, but no split or merge")
            .help("name the axis: split = AXIS or merge = AXIS"));
    };
    if count != forms {
        return Err(Error::mapping("the number of sizes differs from the number of parts")
            .found(count.to_string())
            .expected(forms.to_string()));
    }
    values.map_or(Ok(()), check_lengths)
}

fn listed(captures: &BTreeMap<&str, &str>) -> String {
    match captures.is_empty() {
        true => "none".to_owned(),
        false => {
            captures.iter().map(|(name, class)| format!("{{{name}:{class}}}")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// One name, or a list of them.
pub(super) struct Names {
    texts: Vec<String>,
}

impl<'de> serde::Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Names;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E>(self, text: &str) -> Result<Names, E> {
                Ok(Names { texts: vec![text.to_owned()] })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Names, A::Error> {
                let texts = serde::Deserialize::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Names { texts })
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}
