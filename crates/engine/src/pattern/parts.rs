//! The type [`Pattern`]: literals, captures and wildcards in order, and how they are printed.

/// The separator of segments, unless a mapping names another.
pub const SEPARATOR: char = '/';

/// The form of a whole name: parts in order, no two literals side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The parts.
    pub parts: Vec<Part>,
}

/// One part of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Exactly this text.
    Literal(String),
    /// A named part of the name; the `to` of a rule may shift an int.
    Capture {
        /// The name of the capture.
        name: String,
        /// What it matches.
        class: Class,
        /// What the `to` of a rule adds to an int.
        shift: i64,
    },
    /// `*`, `**` or `?`.
    Wildcard(Class),
}

/// The texts that a capture or wildcard matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Digits.
    Int,
    /// This many digits, padded with zeros.
    Padded(u8),
    /// Letters, digits and `_`.
    Word,
    /// Anything but the separator.
    Segment,
    /// Anything.
    Path,
    /// `*`
    Star,
    /// `**`
    DoubleStar,
    /// `?`
    QuestionMark,
}

/// The types of captures, as patterns write them.
pub(super) const TYPES: [(&str, Class); 12] = [
    ("int", Class::Int),
    ("int2", Class::Padded(2)),
    ("int3", Class::Padded(3)),
    ("int4", Class::Padded(4)),
    ("int5", Class::Padded(5)),
    ("int6", Class::Padded(6)),
    ("int7", Class::Padded(7)),
    ("int8", Class::Padded(8)),
    ("int9", Class::Padded(9)),
    ("word", Class::Word),
    ("segment", Class::Segment),
    ("path", Class::Path),
];

/// Each character that a pattern gives a meaning, and how a pattern writes it as part of a name.
pub(super) const ESCAPES: [(char, &str); 4] = [('{', "{{"), ('}', "}}"), ('*', "{*}"), ('?', "{?}")];

impl Pattern {
    /// Returns the pattern that matches `name` and nothing else.
    pub fn literal(name: &str) -> Self {
        Pattern { parts: vec![Part::Literal(name.to_owned())] }
    }

    /// Returns the only name that the pattern matches, if it consists of literal text.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns the length of the shortest name that matches, in characters.
    pub(crate) fn min_chars(&self) -> usize {
        let chars = self.parts.iter().map(|part| match part {
            Part::Literal(text) => text.chars().count(),
            Part::Wildcard(Class::Star | Class::DoubleStar) => 0,
            Part::Capture { class: Class::Padded(digits), .. } => usize::from(*digits),
            Part::Wildcard(_) | Part::Capture { .. } => 1,
        });
        chars.sum()
    }

    /// Returns the names and classes of the captures, in order.
    pub(crate) fn captures(&self) -> impl Iterator<Item = (&str, Class)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Capture { name, class, .. } => Some((name.as_str(), *class)),
            _ => None,
        })
    }

    /// Returns the class of a capture.
    pub(crate) fn class_of(&self, capture: &str) -> Option<Class> {
        self.captures().find(|(name, _)| *name == capture).map(|(_, class)| class)
    }

    /// Returns the shift of a capture; 0 if the pattern lacks it.
    pub(crate) fn shift_of(&self, capture: &str) -> i64 {
        let shift = self.parts.iter().find_map(|part| match part {
            Part::Capture { name, shift, .. } if name == capture => Some(*shift),
            _ => None,
        });
        shift.unwrap_or_default()
    }

    /// Returns the pattern with the shift of every capture replaced by `shift` of its name.
    pub(crate) fn with_shifts(&self, shift: impl Fn(&str) -> i64) -> Self {
        let mut pattern = self.clone();
        for part in &mut pattern.parts {
            if let Part::Capture { name, shift: own, .. } = part {
                *own = shift(name);
            }
        }
        pattern
    }

    /// Returns the pattern with `**` for every `*`, if it has a `*`.
    pub(crate) fn across_segments(&self) -> Option<Self> {
        let mut pattern = self.clone();
        for part in &mut pattern.parts {
            if *part == Part::Wildcard(Class::Star) {
                *part = Part::Wildcard(Class::DoubleStar);
            }
        }
        (pattern != *self).then_some(pattern)
    }

    /// Prints the pattern as the matching side of a file writes it, with types.
    pub fn as_source(&self) -> String {
        self.print(|name, class, _| match class {
            Class::Segment => format!("{{{name}}}"),
            _ => format!("{{{name}:{}}}", class.name()),
        })
    }

    /// Prints the pattern as the `to` of a rule writes it.
    pub fn as_target(&self) -> String {
        self.print(|name, class, shift| {
            let shift = if shift == 0 { String::new() } else { format!("{shift:+}") };
            match class {
                Class::Padded(_) => format!("{{{name}{shift}:{}}}", class.name()),
                _ => format!("{{{name}{shift}}}"),
            }
        })
    }

    /// Prints the pattern without the names of its captures: two patterns of one shape match the same names.
    pub(crate) fn shape(&self) -> String {
        self.print(|_, class, _| format!("{{:{}}}", class.name()))
    }

    fn print(&self, capture: impl Fn(&str, Class, i64) -> String) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Literal(text) => escape(text),
            Part::Capture { name, class, shift } => capture(name, *class, *shift),
            Part::Wildcard(class) => class.name().to_owned(),
        });
        parts.collect()
    }
}

impl Class {
    /// Returns the type of a capture, or the wildcard, as patterns write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Star => "*",
            Class::DoubleStar => "**",
            Class::QuestionMark => "?",
            typed => TYPES.iter().find(|(_, class)| *class == typed).map_or("", |(name, _)| *name),
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Class::Int | Class::Padded(_))
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match ESCAPES.iter().find(|(special, _)| *special == c) {
            Some((_, written)) => escaped += written,
            None => escaped.push(c),
        }
    }
    escaped
}
