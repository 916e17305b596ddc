// ckpt_forward::kernel::Copy

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    rank: u32,
    shape: array<vec4<u32>, 2>,
    from_strides: array<vec4<u32>, 2>,
    to_strides: array<vec4<u32>, 2>,
    from_offset: u32,
    to_offset: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    var rest = i;
    var from_place = params.from_offset;
    var to_place = params.to_offset;
    for (var axis = params.rank; axis > 0u; axis--) {
        let a = axis - 1u;
        let length = params.shape[a / 4u][a % 4u];
        let at = rest % length;
        rest /= length;
        from_place += at * params.from_strides[a / 4u][a % 4u];
        to_place += at * params.to_strides[a / 4u][a % 4u];
    }
    output[to_place] = x[from_place];
}
