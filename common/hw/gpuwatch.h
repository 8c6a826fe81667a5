/* gpuwatch.h - run conditions of one GPU during a measurement: its clock, temperature, what
 * slows it down, who else uses it. Uses nvml_lib, err, mem. NVML is opened with dlopen; one
 * thread. */
#ifndef RNP_COMMON_HW_GPUWATCH_H
#define RNP_COMMON_HW_GPUWATCH_H

#include <stdint.h>

struct gpuwatch;

struct gpuwatch_reading {
	int clock_mhz;     /* of the multiprocessors; 0: not known */
	int temperature_c; /* -1: not known */
	int others; /* processes that compute on it beside this one; -1: not known */
	uint64_t held_back; /* bits GPUWATCH_..., 0 also when not known */
};

/* NVML's bits for reasons why the clock is lower than the GPU would choose, without those of being
 * idle and of a clock that an application asked for. */
#define GPUWATCH_POWER    UINT64_C(0x04) /* the power limit that is set */
#define GPUWATCH_SLOWDOWN UINT64_C(0x08) /* hardware: heat or power brake */
#define GPUWATCH_THERMAL  UINT64_C(0x60) /* software's and hardware's */
#define GPUWATCH_BRAKE    UINT64_C(0x80) /* the power supply asks for less */
#define GPUWATCH_ALL      UINT64_C(0xec)

/* Begins to watch the GPU of this UUID. Returns NULL with err_set (69): no NVML, or it does not
 * know the GPU (it is a slice of one in multi-instance mode, for example). */
struct gpuwatch *gpuwatch_open(const unsigned char uuid[16]);

/* Reads the state. Returns 0, or -1 with err_set (69): the GPU does not answer any more. */
int gpuwatch_read(struct gpuwatch *w, struct gpuwatch_reading *out);

/* Writes "power limit, heat" for these bits, "" for none. */
void gpuwatch_text(uint64_t held_back, char *out, int size);

void gpuwatch_close(struct gpuwatch *w); /* NULL is fine */

#endif
