//! Shapes of inputs that users state, and why a symbol cannot be read.

use ckpt_api::Error;
use std::collections::BTreeMap;

/// What a symbol could not be read for: a clause that follows the operator's name.
pub(crate) type Read<T> = Result<T, String>;

/// Shapes that the user states, by input; `None` is a free length.
pub type StatedShapes = BTreeMap<String, Vec<Option<u64>>>;

/// Parses shapes of inputs as users state them, with 0 for a free length.
///
/// ```
/// let shapes = ckpt_mxnet_symbol::stated_shapes("data:0,3,224,224;mask:0,10")?;
/// assert_eq!(shapes["mask"], [None, Some(10)]);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Usage`].
pub fn stated_shapes(text: &str) -> ckpt_api::Result<StatedShapes> {
    let mut shapes = StatedShapes::new();
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let parsed = part.rsplit_once(':').and_then(|(name, lens)| {
            let len = |len: &str| {
                let len: u64 = len.trim().parse().ok()?;
                Some(Some(len).filter(|len| *len > 0))
            };
            let lens = lens.split(',').map(len).collect::<Option<Vec<Option<u64>>>>()?;
            Some((name.trim().to_owned(), lens))
        });
        let (name, lens) = parsed.ok_or_else(|| {
            Error::usage("the shape of an input cannot be read")
                .field("shape")
                .found(format!("'{}'", part.escape_debug()))
                .expected("a name and lengths, such as data:0,3,224,224 (0: free)")
        })?;
        shapes.insert(name, lens);
    }
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_shapes_have_free_lengths() {
        let shapes = stated_shapes("data:0,3; m:4").unwrap();
        assert_eq!(shapes["data"], [None, Some(3)]);
        assert_eq!(shapes["m"], [Some(4)]);
        assert!(stated_shapes("data").is_err() && stated_shapes("data:x").is_err());
        assert!(stated_shapes("").unwrap().is_empty());
    }
}
