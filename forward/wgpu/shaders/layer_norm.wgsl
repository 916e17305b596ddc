// ckpt_forward::kernel::LayerNorm: one thread for each row

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    length: u32,
    // As a number.
    count: f32,
    epsilon: f32,
    has_bias: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;
@group(0) @binding(4) var<storage, read> scale: array<u32>;
@group(0) @binding(5) var<storage, read> bias: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let r = thread(id);
    if r >= params.threads {
        return;
    }
    let first = r * params.length;
    var sum = 0.0;
    for (var i = 0u; i < params.length; i++) {
        sum = add(sum, load(x[first + i]));
    }
    let mean = divide(sum, params.count);
    var squares = 0.0;
    for (var i = 0u; i < params.length; i++) {
        let difference = subtract(load(x[first + i]), mean);
        squares = add(squares, multiply(difference, difference));
    }
    let deviation = square_root(add(divide(squares, params.count), params.epsilon));
    for (var i = 0u; i < params.length; i++) {
        var value = multiply(divide(subtract(load(x[first + i]), mean), deviation), load(scale[i]));
        if params.has_bias != 0u {
            value = add(value, load(bias[i]));
        }
        store(first + i, value);
    }
}
