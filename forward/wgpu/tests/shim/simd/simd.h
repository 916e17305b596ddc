// Vectors are in metal.h.
