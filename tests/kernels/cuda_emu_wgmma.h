/* cuda_emu_wgmma.h - mbarriers, the TMA and wgmma of compute capability 9.0 in the emulation, by
 * the text of the PTX ISA. Included by kernels/dev/cuda/wgmma.cuh.
 *
 * What is asynchronous on a chip is adversarial here, as CUDA_EMU_SEED decides: the bytes of a copy
 * come at once, as late as anything still waits for them, or at some time between, out of order;
 * the memory that they go to is noise until then. A product reads shared memory, and A where it is
 * in registers, when it is started or when it is waited for, and D is noise until then; of four D
 * there may be products under way. These end the test with a message: a copy into memory that a
 * product which nobody has waited for may still read, or beyond an array; an mbarrier that is used
 * before it is made visible, overwritten, or left with bytes or arrivals that never come (all
 * threads wait); a product without a fence before it; one that is never committed or waited for;
 * warps of a warpgroup with different products; a descriptor with another swizzle, a base offset
 * that is not its address's, or an address outside of shared memory; what cuTensorMapEncodeTiled
 * refuses. */
#ifndef RNP_TESTS_KERNELS_CUDA_EMU_WGMMA_H
#define RNP_TESTS_KERNELS_CUDA_EMU_WGMMA_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix of 16-bit numbers and the boxes that are copied of it, with the 128-byte swizzle. */
struct emu_tensor_map {
	uint64_t magic;
	const void *at;
	uint64_t rows, columns, row_bytes;
	uint64_t sheets, sheet_bytes; /* 0: it has two dimensions */
	uint32_t box_rows, box_columns;
	uint64_t unused[8];
};

/* Returns 0, or 1 for what cuTensorMapEncodeTiled refuses. */
int emu_tensor_map(struct emu_tensor_map *map, const void *at, uint64_t rows,
	uint64_t columns, uint64_t row_bytes, uint32_t box_rows, uint32_t box_columns);
/* Makes it one of three dimensions, of so many matrices; returns as that. */
int emu_tensor_map_sheets(struct emu_tensor_map *map, uint64_t sheets,
	uint64_t sheet_bytes);
void emu_tensor_load(void *to, const struct emu_tensor_map *map, int x, int y,
	uint64_t *barrier);
void emu_tensor_load_sheet(void *to, const struct emu_tensor_map *map, int x, int y,
	int z, uint64_t *barrier);

void emu_mbarrier_init(uint64_t *b, unsigned count);
void emu_mbarrier_fence(void);
void emu_mbarrier_arrive(uint64_t *b, unsigned expect_bytes);
void emu_mbarrier_wait(uint64_t *b, unsigned parity);

/* setmaxnreg: `more` waits for registers that others give back. A block has as many for each thread
 * as fit, warps in equal parts on the four quarters of an SM; that is what the kernel must be
 * compiled to. */
void emu_registers(bool more, unsigned n);

void emu_wgmma_fence(void);
void emu_wgmma(float *d, unsigned columns, uint64_t a, uint64_t b, bool add,
	bool a_turned, bool b_turned);
/* a: this lane's four registers, which must stay as they are until the product is waited for */
void emu_wgmma_left(float *d, unsigned columns, const unsigned *a, uint64_t b, bool add,
	bool b_turned);
void emu_wgmma_commit(void);
void emu_wgmma_wait(unsigned groups);

/* For the scheduler. emu_wgmma_step: completes a copy, if it is time, or `must` because nobody can
 * run; returns whether it did. The others are called when a fiber and when a block ends. */
bool emu_wgmma_step(bool must);
void emu_wgmma_fiber_end(void);
/* Says on stderr what the block's mbarriers lack, when all its threads wait. */
void emu_wgmma_waiting(const void *state);
void emu_wgmma_block_end(void *state);

/* What cuda_emu.c does for it: the running fiber and its block. */
void emu_die(const char *why);
unsigned emu_below(unsigned n);
/* how fibers are chosen: 0 at random, 1 to 3 as cuda_emu.h says */
unsigned emu_habit(void);
unsigned emu_index(void);   /* of the running fiber in its block */
void **emu_block_own(void); /* state that belongs to its block */
/* What the running fiber has written or seen until now is added to `seen`, which has a number for
 * each thread that a block may have; it sees what was added there. */
void emu_release(uint32_t *seen);
void emu_acquire(const uint32_t *seen);
/* Waits until emu_wake is called for the same place. */
void emu_sleep(const void *place);
void emu_wake(const void *place);
/* Where something in shared memory is in the 256 KiB that instructions see, and back: NULL where
 * not all of `bytes` are in one array. */
unsigned emu_shared_address(const void *p);
void *emu_shared_at(unsigned address, unsigned bytes);

#ifdef __cplusplus
}
#endif

#endif
