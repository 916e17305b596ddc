//! Dense elements of sparse arrays.

use ckpt_api::{Compression, Decoder, Parameters};
use std::io;

/// Fills an array with zeros, and with the parts that are stored: rows, or single elements.
pub(crate) const SPARSE: &Decoder = &Decoder::whole("mxnet.sparse", |_, _| u64::MAX, decode);

/// The parameters: bytes of a part, and the place of each, counted in parts.
const PART: &str = "part";
const PLACES: &str = "places";

/// Parts of `part` bytes each at these places, which have `stored` bytes in all.
pub(crate) fn sparse(part: u64, places: &[u64], stored: u64) -> Compression {
    let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
    let parameters = Parameters::default().with_number(PART, part).with_bytes(PLACES, bytes);
    Compression::new(SPARSE, stored).with_parameters(parameters)
}

fn decode(stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
    let wrong = |what: &str| io::Error::other(what.to_owned());
    let part = parameters.number(PART).and_then(|bytes| usize::try_from(bytes).ok());
    let part = part.filter(|bytes| *bytes > 0).ok_or_else(|| wrong("a part has no bytes"))?;
    let (places, rest) = parameters.bytes(PLACES).unwrap_or_default().as_chunks();
    if !rest.is_empty() || places.len().checked_mul(part) != Some(stored.len()) {
        return Err(wrong("the stored parts are not as many as their places"));
    }
    out.fill(0);
    for (place, bytes) in places.iter().zip(stored.chunks_exact(part)) {
        let start = usize::try_from(u64::from_le_bytes(*place)).ok().and_then(|at| at.checked_mul(part));
        let to = start.and_then(|start| out.get_mut(start..)?.get_mut(..part));
        to.ok_or_else(|| wrong("a part lies outside the array"))?.copy_from_slice(bytes);
    }
    Ok(out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(places: &[u64], stored: &[u8], len: usize) -> io::Result<Vec<u8>> {
        let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let parameters = Parameters::default().with_number(PART, 2).with_bytes(PLACES, bytes);
        let mut out = vec![9; len];
        decode(stored, &parameters, &mut out).map(|_| out)
    }

    #[test]
    fn parts_are_at_their_places_and_the_rest_is_zero() {
        assert_eq!(decoded(&[2, 0], &[5, 6, 7, 8], 6).unwrap(), [7, 8, 0, 0, 5, 6]);
        assert_eq!(decoded(&[], &[], 4).unwrap(), [0; 4]);
    }

    #[test]
    fn other_numbers_of_parts_and_places_outside_are_refused() {
        assert!(decoded(&[0], &[1], 4).is_err());
        assert!(decoded(&[2], &[1, 2], 4).is_err());
        assert!(decoded(&[u64::MAX], &[1, 2], 4).is_err());
    }
}
