/* outer.c - the reference of outer.h. */
#include "kernels/grad/outer.h"

#define TARGET
#define LOOP
#define NAME(x) x##_ref
#include "kernels/grad/outer_loops.inc"
