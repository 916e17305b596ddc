//! A chess position, parsed from FEN.

use ckpt_api::{Error, Result};

/// A chess position, as far as it is an input of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pieces: Vec<Piece>,
    black_to_move: bool,
}

/// A piece on its square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// a1 is 0, h1 is 7, h8 is 63.
    pub(super) square: u8,
    pub(super) black: bool,
    /// Pawn 0, knight 1, bishop 2, rook 3, queen 4, king 5.
    pub(super) kind: u8,
}

const PAWN: u8 = 0;
pub(super) const KING: u8 = 5;
const KINDS: [char; 6] = ['p', 'n', 'b', 'r', 'q', 'k'];

/// Most pieces of a position.
pub(super) const MAX_PIECES: usize = 32;

/// Most pieces of one color.
const MAX_PIECES_OF_COLOR: usize = 16;

impl Position {
    /// Parses Forsyth–Edwards Notation: placement, side to move, castling rights, en-passant square, and both or
    /// neither of the move counters.
    ///
    /// Every field must be well-formed, each color has one king, and no pawn stands on the first or last rank.
    ///
    /// ```
    /// use ckpt::verify::chess::Position;
    /// let position = Position::parse("8/8/8/4k3/8/8/4P3/4K3 w - - 0 1")?;
    /// assert!(Position::parse("8/8/8/4k3/8/8/4P3/8 w - - 0 1").is_err());
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the field, what was found and what was expected.
    pub fn parse(fen: &str) -> Result<Self> {
        let shown: String = fen.chars().take(120).flat_map(char::escape_debug).collect();
        Self::parse_fields(fen).map_err(|error| error.found(format!("'{shown}'")))
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn black_to_move(&self) -> bool {
        self.black_to_move
    }

    fn parse_fields(fen: &str) -> Result<Self> {
        let fields: Vec<&str> = fen.split(' ').collect();
        let (placement, side, castling, passant, counters) = match fields[..] {
            [placement, side, castling, passant] => (placement, side, castling, passant, None),
            [placement, side, castling, passant, half, full] => {
                (placement, side, castling, passant, Some((half, full)))
            }
            _ => {
                return Err(invalid("fields", "6 fields with one space between them, or the first 4"));
            }
        };
        let pieces = parse_placement(placement)?;
        let black_to_move = match side {
            "w" => false,
            "b" => true,
            _ => return Err(invalid("side to move", "w or b")),
        };
        check_castling(castling)?;
        check_en_passant(passant, black_to_move)?;
        if let Some((half, full)) = counters {
            check_counters(half, full)?;
        }
        Ok(Position { pieces, black_to_move })
    }
}

fn invalid(field: &str, expected: &str) -> Error {
    Error::usage("the position is not valid FEN").field(field).expected(expected)
}

fn parse_placement(placement: &str) -> Result<Vec<Piece>> {
    let ranks: Vec<&str> = placement.split('/').collect();
    if ranks.len() != 8 {
        return Err(invalid("placement", "8 ranks, from the eighth to the first, with / between them"));
    }
    let mut pieces = Vec::new();
    for (rank, text) in (0u8..8).rev().zip(ranks) {
        parse_rank(rank, text, &mut pieces)?;
    }
    check_pieces(&pieces)?;
    Ok(pieces)
}

fn parse_rank(rank: u8, text: &str, pieces: &mut Vec<Piece>) -> Result<()> {
    let (mut file, mut after_gap) = (0u8, false);
    for c in text.chars() {
        let gap = c.to_digit(10).and_then(|gap| u8::try_from(gap).ok());
        let kind = (0u8..).zip(KINDS).find(|(_, kind)| *kind == c.to_ascii_lowercase());
        match (gap, kind) {
            (Some(gap @ 1..=8), _) if !after_gap => file += gap,
            (_, Some((kind, _))) if file < 8 => {
                pieces.push(Piece { square: rank * 8 + file, black: c.is_ascii_lowercase(), kind });
                file += 1;
            }
            _ => return Err(invalid("placement", "pieces PNBRQK and pnbrqk, and numbers of empty squares")),
        }
        after_gap = gap.is_some();
        if file > 8 {
            break;
        }
    }
    match file {
        8 => Ok(()),
        _ => Err(invalid("placement", "8 squares on each rank")),
    }
}

fn check_pieces(pieces: &[Piece]) -> Result<()> {
    let error = |expected: &str| Err(invalid("placement", expected));
    for black in [false, true] {
        let own = || pieces.iter().filter(|piece| piece.black == black);
        if own().filter(|piece| piece.kind == KING).count() != 1 {
            return error("one king of each color");
        }
        if own().count() > MAX_PIECES_OF_COLOR {
            return error("at most 16 pieces of each color");
        }
    }
    if pieces.iter().any(|piece| piece.kind == PAWN && matches!(piece.square / 8, 0 | 7)) {
        return error("no pawns on the first and the last rank");
    }
    Ok(())
}

fn check_castling(text: &str) -> Result<()> {
    let mut left = "KQkq".chars();
    let in_order = !text.is_empty() && text.chars().all(|c| left.any(|right| right == c));
    match text == "-" || in_order {
        true => Ok(()),
        false => Err(invalid("castling rights", "- or some of KQkq, in this order")),
    }
}

fn check_en_passant(square: &str, black_to_move: bool) -> Result<()> {
    let expected_rank = if black_to_move { b'3' } else { b'6' };
    match square.as_bytes() {
        [b'-'] => Ok(()),
        [b'a'..=b'h', rank] if *rank == expected_rank => Ok(()),
        _ => Err(invalid("en-passant square", "- or the square behind a pawn that has just moved")),
    }
}

fn check_counters(half: &str, full: &str) -> Result<()> {
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten()
    };
    if number(half).is_some() && number(full).is_some_and(|full| full > 0) {
        return Ok(());
    }
    Err(invalid("move counters", "two numbers, the second at least 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_fen_is_refused_with_the_field() {
        for (fen, field) in [
            ("", "fields"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0", "fields"),
            ("4k3/8/8/8/8/8/8/4K3  w - - 0 1", "fields"),
            ("4k3/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/9/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/44/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k4/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k2/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4x3/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("8/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/3KK3 w - - 0 1", "placement"),
            ("4k2p/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/P3K3 w - - 0 1", "placement"),
            ("4k3/nnnnnnnn/nnnnnnnn/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/4K3 x - - 0 1", "side to move"),
            ("4k3/8/8/8/8/8/8/4K3 w qk - 0 1", "castling rights"),
            ("4k3/8/8/8/8/8/8/4K3 w KK - 0 1", "castling rights"),
            ("4k3/8/8/8/8/8/8/4K3 w - e3 0 1", "en-passant square"),
            ("4k3/8/8/8/8/8/8/4K3 w - i6 0 1", "en-passant square"),
            ("4k3/8/8/8/8/8/8/4K3 w - - -1 1", "move counters"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 0", "move counters"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 99999", "move counters"),
        ] {
            let error = Position::parse(fen).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Usage);
            assert_eq!(error.context().field, Some(field), "{fen}");
        }
    }
}
