/* cuda_failing.c - a librnp_cuda.so for tests: "GPU" 0 is the CPU, with memory that is its own as
 * far as the program knows, and does what the file CUDA_FAILING says at the moment:
 *
 *     slow             every copy to it takes 20 ms more
 *     hold             no copy to it ends until the file says something else, or after 30 s, and
 *                      then it
 *                      fails: a test that fails meanwhile waits for a server that could not end
 *     once OP CODE     the next call of OP (put, get, batch) fails with this code; the file is
 *                      emptied
 *     always OP CODE   so does every one
 *
 * Linked with the kernels of librnp.a, which it does not share with the program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "kernels/dev/dev.h"
#include "kernels/dev/half.h"

#define HOLD_MS 30000
#define TICK_MS 20

static const struct dev_ops *cpu;
static struct dev_ops failing;

static void tick(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = TICK_MS * 1000000L }, NULL);
}

/* Whether the file says "hold". */
static bool holds(void)
{
	const char *path = getenv("CUDA_FAILING");
	FILE *f = path ? fopen(path, "re") : NULL;
	char how[16] = "";

	if (f && fscanf(f, "%15s", how) != 1)
		how[0] = '\0';
	if (f)
		fclose(f);
	return strcmp(how, "hold") == 0;
}

/* Whether this call of an operation is to fail. */
static bool fails(struct dev *d, const char *op)
{
	const char *path = getenv("CUDA_FAILING");
	char how[16] = "", which[16] = "";
	int code = 0, n = 0;
	FILE *f;

	for (int ms = 0; strcmp(op, "put") == 0 && holds(); ms += TICK_MS) {
		if (ms >= HOLD_MS)
			return dev_fail(d, EX_UNAVAILABLE, "cuda:0: held for too long"),
			       true;
		tick();
	}
	f = path ? fopen(path, "r+e") : NULL;
	if (f)
		n = fscanf(f, "%15s %15s %d", how, which, &code);
	if (n == 1 && strcmp(how, "slow") == 0 && strcmp(op, "put") == 0)
		tick();
	if (n != 3 || strcmp(which, op) != 0)
		code = 0;
	if (code && strcmp(how, "once") == 0)
		fclose(fopen(path, "we"));
	if (f)
		fclose(f);
	if (code)
		dev_fail(d, code, "cuda:0: %s: unspecified launch failure", op);
	return code != 0;
}

static int put(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	return fails(d, "put") ? -1 : cpu->put(d, to, host, bytes);
}

/* A copy that is made later fails where it is asked for. */
static int put_later(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	return fails(d, "put") ? -1 : cpu->put_later(d, to, host, bytes);
}

static int get(struct dev *d, void *host, const void *from, uint64_t bytes)
{
	return fails(d, "get") ? -1 : cpu->get(d, host, from, bytes);
}

/* The operations are done: as on a GPU, where the error of one is reported later. */
static int batch_end(struct dev *d)
{
	int rc = cpu->batch_end(d);

	return fails(d, "batch") ? -1 : rc;
}

int rnp_cuda_open(int version, struct dev *d, int n)
{
	if (version != DEV_VERSION || n)
		return dev_fail(d, EX_UNAVAILABLE, "cuda:%d: not here", n);
	if (dev_open_cpu(d, cpu_level_best()) < 0)
		return -1;
	cpu = d->ops;
	failing = *cpu;
	failing.put = put;
	failing.put_later = put_later;
	failing.get = get;
	failing.batch_end = batch_end;
	d->ops = &failing;
	d->is_host = false;
	snprintf(d->name, sizeof d->name, "cuda:0");
	return 0;
}

int rnp_cuda_count(int version, struct dev *d)
{
	(void)version, (void)d;
	return 1;
}
