//! Signatures, sizes and flags of a zip archive's records.

/// Signature of a member's own header.
pub const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Signature of an entry of the central directory.
pub const CENTRAL: [u8; 4] = *b"PK\x01\x02";
/// Signature of the archive's end.
pub const END: [u8; 4] = *b"PK\x05\x06";
/// Signature of the archive's end in 64 bits.
pub const END64: [u8; 4] = *b"PK\x06\x06";
/// Signature of what locates the end in 64 bits.
pub const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
/// Signature of the sizes and the checksum that follow a member's data.
pub const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Bytes of a member's own header, without name and extra fields.
pub const LOCAL_BYTES: u64 = 30;
/// Bytes of an entry of the central directory, without name, extra fields and comment.
pub const CENTRAL_BYTES: u64 = 46;
/// Bytes of the archive's end, without comment.
pub const END_BYTES: u64 = 22;
/// Bytes of the archive's end in 64 bits.
pub const END64_BYTES: u64 = 56;
/// Bytes of what locates it.
pub const LOCATOR64_BYTES: u64 = 20;
/// Offset of the checksum in a member's own header.
pub const LOCAL_CRC: u64 = 14;
/// Offset of the checksum in an entry of the central directory.
pub const CENTRAL_CRC: u64 = 16;
/// Id of the extra field with 64-bit sizes.
pub const EXTRA64: u16 = 1;
/// Flag of an encrypted member.
pub const FLAG_ENCRYPTED: u16 = 1;
/// Flag of a member whose sizes and checksum follow its data.
pub const FLAG_SIZES_LATER: u16 = 1 << 3;
/// Flag of a member that holds differences to another.
pub const FLAG_PATCH: u16 = 1 << 5;
/// Flag of an encrypted central directory.
pub const FLAG_MASKED: u16 = 1 << 13;
/// Flag of a name in UTF-8.
pub const FLAG_UTF8: u16 = 1 << 11;
/// Method of a member that is not compressed.
pub const STORED: u16 = 0;
/// Method of a member that is compressed with DEFLATE.
pub const DEFLATED: u16 = 8;
