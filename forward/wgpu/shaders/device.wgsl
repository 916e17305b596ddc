// What every shader begins with. Numbers of any type are held as their 32 bits, so that moving one never changes it.
//
// Each shader states its own `Params`, whose first three fields are `threads`, `row` and `zero`, and its operands, from
// binding 3 on. The host has checked that every index that follows from the sizes lies within its buffer.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<storage, read_write> status: atomic<u32>;

// An integer result left 32 bits.
const OVERFLOW: u32 = 1u;
// An index operand was out of range.
const OUT_OF_RANGE: u32 = 2u;

// A dispatch has rows of threads, since one dimension alone would be too short.
fn thread(id: vec3<u32>) -> u32 {
    return id.y * params.row + id.x;
}
