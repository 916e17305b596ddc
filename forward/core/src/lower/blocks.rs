//! Lowers blocks of places that become channels, and channels that become blocks of places.

use super::lowering::{Lowering, elements, misfit};
use ckpt_api::{Attribute, Op, Result};

/// Lowers blocks of places that become channels, and channels that become blocks of places.
pub(super) fn blocks(lowering: &mut Lowering) -> Result<()> {
    let to_space = lowering.node.op == Op::DepthToSpace;
    lowering.allow_attributes(&["blocksize", "mode"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    let &[batch, channels, height, width] = &x.shape[..] else {
        return Err(misfit(&x.shape, "[N, C, H, W]: images with their channels first"));
    };
    let stated = lowering.node.int("blocksize", 0)?;
    let size = usize::try_from(stated).ok().filter(|size| (1..1 << 16).contains(size));
    let size = size.ok_or_else(|| Attribute::Int(stated).invalid("blocksize", "at least 1"))?;
    // Whether the channels of a place of the block are side by side.
    let depth_last = match lowering.node.text("mode")?.unwrap_or("DCR") {
        "DCR" => false,
        "CRD" => true,
        other => return Err(Attribute::Text(other.to_owned()).invalid("mode", "DCR or CRD")),
    };
    let input = lowering.local(0)?;
    if to_space {
        if !channels.is_multiple_of(size * size) {
            return Err(misfit(&x.shape, format!("a multiple of {} channels", size * size)));
        }
        let depth = channels / (size * size);
        let (split, order) = match depth_last {
            false => ([batch, size, size, depth, height, width], [0, 3, 4, 1, 5, 2]),
            true => ([batch, depth, size, size, height, width], [0, 1, 4, 2, 5, 3]),
        };
        let value = lowering.transposed(&input.reshaped(split), &order)?;
        return lowering.finish(&value, [batch, depth, height * size, width * size]);
    }
    if !height.is_multiple_of(size) || !width.is_multiple_of(size) {
        return Err(misfit(&x.shape, format!("a multiple of {size} rows and columns")));
    }
    let split = [batch, channels, height / size, size, width / size, size];
    let order = if depth_last { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
    let value = lowering.transposed(&input.reshaped(split), &order)?;
    let depth = elements(&[channels, size * size])?;
    lowering.finish(&value, [batch, depth, height / size, width / size])
}
