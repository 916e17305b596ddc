// ckpt_forward::kernel::Reduce, with Reduction::Mean

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    length: u32,
    // As a number.
    count: f32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let r = thread(id);
    if r >= params.threads {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < params.length; i++) {
        sum = add(sum, load(x[r * params.length + i]));
    }
    store(r, divide(sum, params.count));
}
