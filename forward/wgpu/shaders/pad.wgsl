// ckpt_forward::kernel::Pad

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    rank: u32,
    lengths: array<vec4<u32>, 2>,
    padded: array<vec4<u32>, 2>,
    before: array<vec4<i32>, 2>,
    edge: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    var rest = i;
    var from_place = 0u;
    var step = 1u;
    for (var axis = params.rank; axis > 0u; axis--) {
        let a = axis - 1u;
        let padded = params.padded[a / 4u][a % 4u];
        let length = params.lengths[a / 4u][a % 4u];
        var at = i32(rest % padded) - params.before[a / 4u][a % 4u];
        rest /= padded;
        if params.edge != 0u {
            at = clamp(at, 0, i32(length) - 1);
        }
        if at < 0 || u32(at) >= length {
            output[i] = 0u;
            return;
        }
        from_place += u32(at) * step;
        step *= length;
    }
    output[i] = x[from_place];
}
