// What the device makes of the operations that kernels are made of. `x` has three numbers for each group of four results.

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let a = load(x[i / 4u * 3u]);
    let b = load(x[i / 4u * 3u + 1u]);
    let c = load(x[i / 4u * 3u + 2u]);
    switch i % 4u {
        case 0u: {
            store(i, add(multiply(a, b), c));
        }
        case 1u: {
            store(i, subtract(add(a, b), a));
        }
        case 2u: {
            store(i, divide(a, b));
        }
        default: {
            store(i, square_root(a));
        }
    }
}
