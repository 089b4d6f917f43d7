/* What the compiler plugin counts in device code, in the order of the columns of its table. */
#pragma once

enum counter {
  COUNT_F64,       /* additions, subtractions and multiplications of doubles; a fused multiply-add is two */
  COUNT_F32,
  COUNT_F16,       /* half and bfloat */
  COUNT_DIV64,     /* divisions, remainders and square roots of doubles */
  COUNT_DIV32,
  COUNT_DIV16,
  COUNT_SPECIAL64, /* calls of mathematical functions: sin, exp, pow and others */
  COUNT_SPECIAL32,
  COUNT_INTEGER,
  COUNT_LOADS,
  COUNT_LOAD_BYTES,
  COUNT_STORES,
  COUNT_STORE_BYTES,
  COUNT_ATOMICS,
  COUNT_STACK,     /* accesses to variables of the thread's own: registers or local memory on a GPU */
  COUNT_BRANCHES,
  COUNT_UNKNOWN_CALLS,
  COUNT_ATOMIC_BYTES,
  COUNTS           /* columns */
};

enum { COUNTS_PER_SLOT = 7, COUNTS_SLOTS = 3 };
