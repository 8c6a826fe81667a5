/* apart.h - calls into a driver that may never return, made in a process of their own.
 *
 * A GPU that has fallen off its bus leaves NVML in the kernel, where no thread can be ended and a
 * process that waits for one never ends. So the call is made by a child that holds nothing of ours
 * open, and that is left behind. Uses err. */
#ifndef RNP_COMMON_HW_APART_H
#define RNP_COMMON_HW_APART_H

#include <stddef.h>

#define APART_BOUND_MS 5000 /* of one answer of a driver */

enum apart { APART_DONE, APART_HANGS, APART_DIED };

/* Returns size bytes of zeros that parent and child share; NULL with err_set: no memory. */
void *apart_memory(size_t size);
void apart_free(void *memory, size_t size);

/* Runs work(shared) in a child, and waits as long as it beats: the first beat, or its end, comes
 * within first_ms, the others within next_ms. Where no child can be made the work is done here,
 * without a bound. Whatever the child wrote before its last beat is in the shared memory. */
enum apart apart_run(void (*work)(void *shared), void *shared, int first_ms, int next_ms);

/* Tells that the work goes on; for the child alone. */
void apart_beat(void);

/* The words for what became of it: "does not answer within 5 s", "crashed". */
const char *apart_text(enum apart how);

#endif
