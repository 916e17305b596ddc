// ckpt_forward::kernel::StaticFeatures

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    height: u32,
    width: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

// The middle of place `p` of `length`, from 0 to 1.
fn middle(p: u32, length: u32) -> f32 {
    return divide(add(from_unsigned(p), 0.5), from_unsigned(length));
}

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let plane = params.height * params.width;
    let place = i % plane;
    let channel = i / plane % 8u;
    let image = i / plane / 8u;
    switch channel {
        case 0u, 1u, 2u, 3u: {
            output[i] = x[(image * 4u + channel) * plane + place];
        }
        case 4u: {
            store(i, middle(place % params.width, params.width));
        }
        case 5u: {
            store(i, middle(place / params.width, params.height));
        }
        case 6u: {
            store(i, sine(multiply(10.0, middle(place % params.width, params.width))));
        }
        default: {
            store(i, 1.0);
        }
    }
}
