//! The opcodes of protocols 0 to 5, by the names of Python's `pickletools`.

/// Pushes markobject onto the stack.
pub const MARK: u8 = b'(';
/// Stops the unpickling machine.
pub const STOP: u8 = b'.';
/// Discards the top stack item, shrinking the stack by one item.
pub const POP: u8 = b'0';
/// Pops all the stack objects at and above the topmost markobject.
pub const POP_MARK: u8 = b'1';
/// Pushes the top stack item onto the stack again, duplicating it.
pub const DUP: u8 = b'2';
/// Newline-terminated decimal float literal.
pub const FLOAT: u8 = b'F';
/// Pushes an integer or bool.
pub const INT: u8 = b'I';
/// Pushes a four-byte signed integer.
pub const BININT: u8 = b'J';
/// Pushes a one-byte unsigned integer.
pub const BININT1: u8 = b'K';
/// Pushes a long integer.
pub const LONG: u8 = b'L';
/// Pushes a two-byte unsigned integer.
pub const BININT2: u8 = b'M';
/// Pushes None on the stack.
pub const NONE: u8 = b'N';
/// Pushes an object identified by a persistent ID.
pub const PERSID: u8 = b'P';
/// Pushes an object identified by a persistent ID.
pub const BINPERSID: u8 = b'Q';
/// Pushes an object built from a callable and an argument tuple.
pub const REDUCE: u8 = b'R';
/// Pushes a Python string object.
pub const STRING: u8 = b'S';
/// Pushes a Python string object.
pub const BINSTRING: u8 = b'T';
/// Pushes a Python string object.
pub const SHORT_BINSTRING: u8 = b'U';
/// Pushes a Python Unicode string object.
pub const UNICODE: u8 = b'V';
/// Pushes a Python Unicode string object.
pub const BINUNICODE: u8 = b'X';
/// Appends an object to a list.
pub const APPEND: u8 = b'a';
/// Finishes building an object, via __setstate__ or dict update.
pub const BUILD: u8 = b'b';
/// Pushes a global object (module.attr) on the stack.
pub const GLOBAL: u8 = b'c';
/// Builds a dict out of the topmost stack slice, after markobject.
pub const DICT: u8 = b'd';
/// Pushes an empty dict.
pub const EMPTY_DICT: u8 = b'}';
/// Extend a list by a slice of stack objects.
pub const APPENDS: u8 = b'e';
/// Reads an object from the memo and push it on the stack.
pub const GET: u8 = b'g';
/// Reads an object from the memo and push it on the stack.
pub const BINGET: u8 = b'h';
/// Builds a class instance.
pub const INST: u8 = b'i';
/// Reads an object from the memo and push it on the stack.
pub const LONG_BINGET: u8 = b'j';
/// Builds a list out of the topmost stack slice, after markobject.
pub const LIST: u8 = b'l';
/// Pushes an empty list.
pub const EMPTY_LIST: u8 = b']';
/// Builds a class instance.
pub const OBJ: u8 = b'o';
/// Stores the stack top into the memo.
pub const PUT: u8 = b'p';
/// Stores the stack top into the memo.
pub const BINPUT: u8 = b'q';
/// Stores the stack top into the memo.
pub const LONG_BINPUT: u8 = b'r';
/// Adds a key+value pair to an existing dict.
pub const SETITEM: u8 = b's';
/// Builds a tuple out of the topmost stack slice, after markobject.
pub const TUPLE: u8 = b't';
/// Pushes an empty tuple.
pub const EMPTY_TUPLE: u8 = b')';
/// Adds an arbitrary number of key+value pairs to an existing dict.
pub const SETITEMS: u8 = b'u';
/// Float stored in binary form, with 8 bytes of data.
pub const BINFLOAT: u8 = b'G';
/// Pushes a Python bytes object.
pub const BINBYTES: u8 = b'B';
/// Pushes a Python bytes object.
pub const SHORT_BINBYTES: u8 = b'C';
/// Protocol version indicator.
pub const PROTO: u8 = 0x80;
/// Builds an object instance.
pub const NEWOBJ: u8 = 0x81;
/// Extension code.
pub const EXT1: u8 = 0x82;
/// Extension code.
pub const EXT2: u8 = 0x83;
/// Extension code.
pub const EXT4: u8 = 0x84;
/// Builds a one-tuple out of the topmost item on the stack.
pub const TUPLE1: u8 = 0x85;
/// Builds a two-tuple out of the top two items on the stack.
pub const TUPLE2: u8 = 0x86;
/// Builds a three-tuple out of the top three items on the stack.
pub const TUPLE3: u8 = 0x87;
/// Pushes True onto the stack.
pub const NEWTRUE: u8 = 0x88;
/// Pushes False onto the stack.
pub const NEWFALSE: u8 = 0x89;
/// Long integer using one-byte length.
pub const LONG1: u8 = 0x8a;
/// Long integer using found-byte length.
pub const LONG4: u8 = 0x8b;
/// Pushes a Python Unicode string object.
pub const SHORT_BINUNICODE: u8 = 0x8c;
/// Pushes a Python Unicode string object.
pub const BINUNICODE8: u8 = 0x8d;
/// Pushes a Python bytes object.
pub const BINBYTES8: u8 = 0x8e;
/// Pushes an empty set.
pub const EMPTY_SET: u8 = 0x8f;
/// Adds an arbitrary number of items to an existing set.
pub const ADDITEMS: u8 = 0x90;
/// Builds a frozenset out of the topmost slice, after markobject.
pub const FROZENSET: u8 = 0x91;
/// Builds an object instance.
pub const NEWOBJ_EX: u8 = 0x92;
/// Pushes a global object (module.attr) on the stack.
pub const STACK_GLOBAL: u8 = 0x93;
/// Stores the stack top into the memo.
pub const MEMOIZE: u8 = 0x94;
/// Indicate the beginning of a new frame.
pub const FRAME: u8 = 0x95;
/// Pushes a Python bytearray object.
pub const BYTEARRAY8: u8 = 0x96;
/// Pushes an out-of-band buffer object.
pub const NEXT_BUFFER: u8 = 0x97;
/// Makes an out-of-band buffer object read-only.
pub const READONLY_BUFFER: u8 = 0x98;
