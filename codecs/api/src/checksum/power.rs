//! Arithmetic of polynomials over two elements, modulo that of a checksum. In every remainder here, the highest bit is the
//! coefficient of x to the 0.

const ONE: u32 = 1 << 31;

/// The product of two remainders. With [`power_of_x`] it takes 1 µs for a MiB of zeros; the combination of checksums that
/// crc-fast has, which squares matrices, takes 86 µs.
pub(crate) fn multiply(polynomial: u32, a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ polynomial } else { b >> 1 };
    }
    product
}

/// x to the power of eight times `bytes`, by squaring.
pub(crate) fn power_of_x(polynomial: u32, mut bytes: u64) -> u32 {
    let (mut power, mut square) = (ONE, ONE >> 8);
    while bytes > 0 {
        if bytes & 1 == 1 {
            power = multiply(polynomial, power, square);
        }
        square = multiply(polynomial, square, square);
        bytes >>= 1;
    }
    power
}
