//! The operator beyond ONNX's that a renderer of CNN2 files needs, with its reference implementation.

use ckpt_api::{InputSpec, OpCall, OpShapes, OpSpec, OutputView, Result};

/// The definition of the operator that computes a file's static features from an image.
pub(crate) static SPECS: [OpSpec; 1] = [
    // Input: an image, `[N, 4, H, W]`.
    OpSpec::new("ckpt.StaticFeatures", features_shape, features).inputs(&[InputSpec::real()]),
];

fn features_shape(shapes: &OpShapes) -> Result<Vec<usize>> {
    match shapes.input(0) {
        &[batch, 4, height, width] => Ok(vec![batch, 8, height, width]),
        _ => Err(shapes.misfit(0, "[N, 4, H, W]: red, green, blue, depth")),
    }
}

/// The four channels of the image, then `u = (column + 0.5)/W`, `v = (row + 0.5)/H`, `sin(10·u)`, and 1.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
fn features(call: &OpCall, y: &mut OutputView) -> Result<()> {
    let image = call.input(0);
    let &[batch, channels, height, width] = image.shape() else {
        return Err(call.shapes().misfit(0, "an image"));
    };
    for n in 0..batch {
        for row in 0..height {
            for column in 0..width {
                for channel in 0..channels {
                    y.set([n, channel, row, column], image.at([n, channel, row, column]));
                }
                let u = (column as f64 + 0.5) / width as f64;
                let v = (row as f64 + 0.5) / height as f64;
                for (channel, value) in (channels..).zip([u, v, (10.0 * u).sin(), 1.0]) {
                    y.set([n, channel, row, column], value);
                }
            }
        }
    }
    Ok(())
}
