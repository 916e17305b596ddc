// ckpt_forward::kernel::Unary, of integers

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    function: u32,
    first: i32,
    second: i32,
}

// In the order of the host's list.
const RELU: u32 = 0u;
const CLIP: u32 = 1u;
const SQUARE: u32 = 2u;
const SCALE: u32 = 3u;

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let value = bitcast<i32>(x[i]);
    switch params.function {
        case RELU: {
            output[i] = u32(max(value, 0));
        }
        case CLIP: {
            output[i] = bitcast<u32>(select(min(value, params.second), params.first, value < params.first));
        }
        case SQUARE: {
            store(i, multiply(load(x[i]), load(x[i])));
        }
        case SCALE, default: {
            let product = multiply(load(x[i]), load(bitcast<u32>(params.first)));
            store(i, divide(product, bitcast<u32>(params.second)));
        }
    }
}
