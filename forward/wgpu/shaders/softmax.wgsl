// ckpt_forward::kernel::Softmax: one thread for each row

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    length: u32,
    inner: u32,
    is_log: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let r = thread(id);
    if r >= params.threads {
        return;
    }
    let first = r / params.inner * params.length * params.inner + r % params.inner;
    var greatest = load(x[first]);
    for (var i = 1u; i < params.length; i++) {
        greatest = greater(greatest, load(x[first + i * params.inner]));
    }
    var sum = 0.0;
    for (var i = 0u; i < params.length; i++) {
        sum = add(sum, exponential(subtract(load(x[first + i * params.inner]), greatest)));
    }
    var whole = sum;
    if params.is_log != 0u {
        whole = logarithm(sum);
    }
    for (var i = 0u; i < params.length; i++) {
        let place = first + i * params.inner;
        let shifted = subtract(load(x[place]), greatest);
        if params.is_log != 0u {
            store(place, subtract(shifted, whole));
        } else {
            store(place, divide(exponential(shifted), whole));
        }
    }
}
