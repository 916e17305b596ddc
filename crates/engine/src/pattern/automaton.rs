//! One automaton for many patterns: reads a name once, and follows all patterns at the same time.
//!
//! It is nondeterministic. Its states are bits: each pattern has a run of neighboring bits, one for each character of a
//! literal and one or two for a capture; a wildcard has none, it only lets a state stay. Reading a character shifts the
//! bits of the states that accept it by one (Shift-And, Baeza-Yates and Gonnet 1992, extended to classes that repeat),
//! for 64 states in one operation. That bounds the time of a name by its characters × the states of all patterns / 64,
//! whatever the patterns and the name.

use super::parts::{Class, Part, Pattern};

const LANES: usize = 8;
const LANE_BITS: usize = u64::BITS as usize;
const BLOCK_BITS: usize = LANES * LANE_BITS;

/// The states of one block, the first in the lowest bit.
pub(super) type Bits = [u64; LANES];

/// The active states: number and bits of each block that has any, in order.
pub(super) type States = Vec<(usize, Bits)>;

/// Characters that no class distinguishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Zero,
    /// 1 to 9.
    Digit,
    /// `A-Z a-z _`.
    Letter,
    Separator,
    Other,
}

const GROUPS: usize = 5;

impl Group {
    fn of(c: char, separator: char) -> Self {
        match c {
            '0' => Group::Zero,
            '1'..='9' => Group::Digit,
            'A'..='Z' | 'a'..='z' | '_' => Group::Letter,
            c if c == separator => Group::Separator,
            _ => Group::Other,
        }
    }
}

/// Which groups a class contains.
type Groups = [bool; GROUPS];
const DIGITS: Groups = [true, true, false, false, false];
const NONZERO: Groups = [false, true, false, false, false];
const WORD: Groups = [true, true, true, false, false];
const SEGMENT: Groups = [true, true, true, false, true];
const ANY: Groups = [true; GROUPS];

/// The transitions of neighboring states.
#[derive(Clone, Default)]
struct Block {
    /// By group: the states that go on to the next state.
    advance: [Bits; GROUPS],
    /// By group: the states that stay.
    stay: [Bits; GROUPS],
    /// The states before an int: a 0 ends it, two states on.
    zero: Bits,
    /// The states inside a path: a separator leads back by one.
    back: Bits,
    /// The states that imply the next one.
    skip: Bits,
    /// The states in which a pattern has matched.
    end: Bits,
    /// The states in which a literal goes on with a character, by character and lane, sorted.
    literals: Vec<(char, usize, u64)>,
    /// By ASCII character: the number of literals with smaller characters.
    ascii: Vec<u16>,
}

/// The automaton of a list of patterns.
pub(super) struct Automaton {
    separator: char,
    blocks: Vec<Block>,
    start: States,
    /// The last state of each pattern.
    ends: Vec<usize>,
}

impl Automaton {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p Pattern>, separator: char) -> Self {
        let mut builder = Builder::default();
        let (mut starts, mut ends) = (States::new(), Vec::new());
        for pattern in patterns {
            insert(&mut starts, builder.state);
            pattern.parts.iter().for_each(|part| builder.add(part));
            ends.push(builder.state);
            builder.end();
        }
        let blocks = builder.finish();
        let start = with_implied(&blocks, starts);
        Automaton { separator, blocks, start, ends }
    }

    /// Returns the states before the first character.
    pub(super) fn start(&self) -> &[(usize, Bits)] {
        &self.start
    }

    /// Returns the states after another character.
    pub(super) fn step(&self, states: &[(usize, Bits)], c: char) -> States {
        let group = Group::of(c, self.separator);
        let mut next = States::with_capacity(states.len() + 1);
        for (at, bits) in states {
            let Some(block) = self.blocks.get(*at) else { continue };
            add(&mut next, *at, &and(bits, of_group(&block.stay, group)));
            shift(&mut next, *at, &and(bits, &block.advance_by(c, group)), 1);
            if group == Group::Zero {
                shift(&mut next, *at, &and(bits, &block.zero), 2);
            }
            if group == Group::Separator {
                shift_back(&mut next, *at, &and(bits, &block.back));
            }
        }
        with_implied(&self.blocks, next)
    }

    /// Returns the numbers of the patterns that match the name which led to these states, in order.
    pub(super) fn accepted(&self, states: &[(usize, Bits)]) -> Vec<usize> {
        let mut accepted = Vec::new();
        for (at, bits) in states {
            let Some(block) = self.blocks.get(*at) else { continue };
            for (lane, mut ends) in and(bits, &block.end).into_iter().enumerate() {
                while ends != 0 {
                    let state = at * BLOCK_BITS + lane * LANE_BITS + ends.trailing_zeros() as usize;
                    accepted.extend(self.ends.binary_search(&state));
                    ends &= ends - 1;
                }
            }
        }
        accepted
    }
}

impl Block {
    /// Returns the states that go on to the next state by a character.
    fn advance_by(&self, c: char, group: Group) -> Bits {
        let mut advance = *of_group(&self.advance, group);
        let first = match self.ascii.get(c as usize) {
            Some(first) => usize::from(*first),
            None => self.literals.partition_point(|(literal, ..)| *literal < c),
        };
        let literals = self.literals.get(first..).unwrap_or_default();
        for (_, lane, states) in literals.iter().take_while(|(literal, ..)| *literal == c) {
            advance.get_mut(*lane).into_iter().for_each(|lane| *lane |= states);
        }
        advance
    }
}

fn of_group(masks: &[Bits; GROUPS], group: Group) -> &Bits {
    // There is a mask for each group.
    &masks[group as usize]
}

fn and(a: &Bits, b: &Bits) -> Bits {
    std::array::from_fn(|lane| a[lane] & b[lane])
}

fn is_empty(bits: &Bits) -> bool {
    bits.iter().fold(0, |all, lane| all | lane) == 0
}

/// Adds states of one block, which is the last block or near it.
#[inline]
fn add(states: &mut States, at: usize, bits: &Bits) {
    let mut place = states.len();
    for (block, own) in states.iter_mut().rev() {
        if *block == at {
            own.iter_mut().zip(bits).for_each(|(own, bits)| *own |= bits);
            return;
        }
        if *block < at {
            break;
        }
        place -= 1;
    }
    states.insert(place, (at, *bits));
}

/// Adds the states that follow `bits` by one or two.
fn shift(states: &mut States, at: usize, bits: &Bits, by: usize) {
    let mut carry = 0;
    let shifted = bits.map(|lane| {
        let shifted = lane << by | carry;
        carry = lane >> (LANE_BITS - by);
        shifted
    });
    add(states, at, &shifted);
    if carry != 0 {
        add(states, at + 1, &first_lane(carry));
    }
}

/// Adds the states that precede `bits` by one.
fn shift_back(states: &mut States, at: usize, bits: &Bits) {
    let mut carry = 0;
    let mut shifted = *bits;
    for lane in shifted.iter_mut().rev() {
        (*lane, carry) = (*lane >> 1 | carry, *lane << (LANE_BITS - 1));
    }
    add(states, at, &shifted);
    if let (Some(before), true) = (at.checked_sub(1), carry != 0) {
        let mut last = Bits::default();
        last.last_mut().into_iter().for_each(|lane| *lane = carry);
        add(states, before, &last);
    }
}

fn first_lane(first: u64) -> Bits {
    let mut bits = Bits::default();
    bits.first_mut().into_iter().for_each(|lane| *lane = first);
    bits
}

/// Adds the states that these imply, and removes empty blocks.
fn with_implied(blocks: &[Block], states: States) -> States {
    let mut closed = States::with_capacity(states.len() + 1);
    for (at, bits) in states {
        if let Some(block) = blocks.get(at) {
            add(&mut closed, at, &bits);
            let skip = and(&bits, &block.skip);
            if !is_empty(&skip) {
                shift(&mut closed, at, &skip, 1);
            }
        }
    }
    closed.retain(|(_, bits)| !is_empty(bits));
    closed
}

/// Adds a state that is larger than all others.
fn insert(states: &mut States, state: usize) {
    let mut bits = Bits::default();
    let bit = state % BLOCK_BITS;
    bits.get_mut(bit / LANE_BITS).into_iter().for_each(|lane| *lane |= 1 << (bit % LANE_BITS));
    add(states, state / BLOCK_BITS, &bits);
}

/// Lays out patterns one after the other.
#[derive(Default)]
struct Builder {
    /// All blocks but the last.
    blocks: Vec<Block>,
    /// The last block.
    block: Block,
    /// The state, in the last block, in which the next part begins.
    state: usize,
}

impl Builder {
    fn add(&mut self, part: &Part) {
        match part {
            Part::Literal(text) => text.chars().for_each(|c| self.literal(c)),
            Part::Capture { class, .. } | Part::Wildcard(class) => self.class(*class),
        }
    }

    fn literal(&mut self, c: char) {
        let (lane, bit) = self.bit();
        self.block.literals.push((c, lane, bit));
        self.next_state();
    }

    fn class(&mut self, class: Class) {
        match class {
            Class::Star => self.stay(&SEGMENT),
            Class::DoubleStar => self.stay(&ANY),
            Class::QuestionMark => self.advance(&SEGMENT),
            Class::Padded(digits) => (0..digits).for_each(|_| self.advance(&DIGITS)),
            Class::Word => self.repeat(&WORD),
            Class::Segment => self.repeat(&SEGMENT),
            Class::Int => {
                self.mark(|block| &mut block.zero);
                self.advance(&NONZERO);
                self.stay(&DIGITS);
                self.skip();
            }
            Class::Path => {
                // The next part begins in a state of its own, from which no separator leads back.
                self.advance(&SEGMENT);
                self.stay(&SEGMENT);
                self.mark(|block| &mut block.back);
                self.skip();
            }
        }
    }

    /// One character or more of these groups.
    fn repeat(&mut self, groups: &Groups) {
        self.advance(groups);
        self.stay(groups);
    }

    fn advance(&mut self, groups: &Groups) {
        for (group, _) in groups.iter().enumerate().filter(|(_, contained)| **contained) {
            self.mark(|block| &mut block.advance[group]);
        }
        self.next_state();
    }

    fn stay(&mut self, groups: &Groups) {
        for (group, _) in groups.iter().enumerate().filter(|(_, contained)| **contained) {
            self.mark(|block| &mut block.stay[group]);
        }
    }

    fn skip(&mut self) {
        self.mark(|block| &mut block.skip);
        self.next_state();
    }

    fn end(&mut self) {
        self.mark(|block| &mut block.end);
        self.next_state();
    }

    /// Adds the current state to a mask.
    fn mark(&mut self, mask: impl FnOnce(&mut Block) -> &mut Bits) {
        let (lane, bit) = self.bit();
        mask(&mut self.block).get_mut(lane).into_iter().for_each(|lane| *lane |= bit);
    }

    /// Returns the lane and the bit of the current state.
    fn bit(&self) -> (usize, u64) {
        let bit = self.state % BLOCK_BITS;
        (bit / LANE_BITS, 1 << (bit % LANE_BITS))
    }

    fn next_state(&mut self) {
        self.state += 1;
        if self.state.is_multiple_of(BLOCK_BITS) {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.literals.sort_unstable_by_key(|(c, lane, _)| (*c, *lane));
        block.literals.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 |= next.2;
            }
            same
        });
        block.literals.shrink_to_fit();
        let smaller = |c: u8| block.literals.partition_point(|(literal, ..)| *literal < char::from(c));
        // A block has fewer literals than states.
        block.ascii = (0..128).map(|c| u16::try_from(smaller(c)).unwrap_or(u16::MAX)).collect();
        self.blocks.push(block);
    }

    fn finish(mut self) -> Vec<Block> {
        self.end_block();
        self.blocks
    }
}
