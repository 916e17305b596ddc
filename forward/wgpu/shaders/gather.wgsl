// ckpt_forward::kernel::Gather

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    columns: u32,
    table_rows: u32,
    row_stride: u32,
    column_stride: u32,
}

@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read> index: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let chosen = index[i / params.columns];
    if chosen >= params.table_rows {
        atomicOr(&status, OUT_OF_RANGE);
        return;
    }
    output[i] = table[chosen * params.row_stride + (i % params.columns) * params.column_stride];
}
