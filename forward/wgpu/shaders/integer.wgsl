// Integers of 32 bits, summed in 64: the same names as in real.wgsl, so that kernels are written once.

struct Sum {
    low: u32,
    high: u32,
}

const SIGN: u32 = 0x80000000u;

fn nothing() -> Sum {
    return Sum(0u, 0u);
}

fn load(word: u32) -> Sum {
    return Sum(word, select(0u, 0xffffffffu, (word & SIGN) != 0u));
}

fn fits(x: Sum) -> bool {
    return x.high == select(0u, 0xffffffffu, (x.low & SIGN) != 0u);
}

fn store(i: u32, x: Sum) {
    if !fits(x) {
        atomicOr(&status, OVERFLOW);
    }
    output[i] = x.low;
}

fn add(a: Sum, b: Sum) -> Sum {
    let low = a.low + b.low;
    let high = a.high + b.high + select(0u, 1u, low < a.low);
    if ((a.high ^ high) & (b.high ^ high) & SIGN) != 0u {
        atomicOr(&status, OVERFLOW);
    }
    return Sum(low, high);
}

fn negate(x: Sum) -> Sum {
    let low = ~x.low + 1u;
    return Sum(low, ~x.high + select(0u, 1u, low == 0u));
}

fn magnitude(word: u32) -> u32 {
    return select(word, ~word + 1u, (word & SIGN) != 0u);
}

// The factors must fit 32 bits, as everything does that was loaded.
fn multiply(x: Sum, y: Sum) -> Sum {
    let a = magnitude(x.low);
    let b = magnitude(y.low);
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu);
    let right = (a & 0xffffu) * (b >> 16u);
    let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u);
    let product = Sum((middle << 16u) | (low & 0xffffu), high);
    if ((x.low ^ y.low) & SIGN) != 0u {
        return negate(product);
    }
    return product;
}

// Towards zero; the divisor is not 0.
fn divide(x: Sum, by: u32) -> Sum {
    let is_negative = (x.high & SIGN) != 0u;
    var size = x;
    if is_negative {
        size = negate(x);
    }
    let divisor = magnitude(by);
    let high = size.high / divisor;
    var rest = size.high % divisor;
    var low = 0u;
    for (var i = 0u; i < 32u; i++) {
        // What is shifted out makes the remainder greater than any divisor.
        let carry = rest >> 31u;
        rest = (rest << 1u) | ((size.low >> (31u - i)) & 1u);
        low <<= 1u;
        if carry != 0u || rest >= divisor {
            rest -= divisor;
            low |= 1u;
        }
    }
    let quotient = Sum(low, high);
    if is_negative != ((by & SIGN) != 0u) {
        return negate(quotient);
    }
    return quotient;
}
