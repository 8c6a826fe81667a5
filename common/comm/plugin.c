/* plugin.c - makes a backend that lives in a plug-in one of ours: forwards the calls and
 * turns its sentences into errors. */
#include "common/comm/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "kernels/dev/plugin.h"

struct outside {
	struct comm_ops ops;
	const struct comm_plugin *p;
	void *state;
};

/* How long NCCL may make no progress: rank 0 may be writing a checkpoint. RNP_NCCL_TIMEOUT_MS
 * is for tests. */
#define NCCL_TIMEOUT_MS 1800000

static int failed(const struct outside *o, int rc, const char *why)
{
	return err_set(rc == COMM_PLUGIN_LATE ? EX_TEMPFAIL : EX_UNAVAILABLE, "%s: %s",
		o->p->name, why);
}

static int done(const struct outside *o, int rc, const char *why)
{
	return rc < 0 ? failed(o, rc, why) : 0;
}

static int outside_send(struct comm *c, int to, const void *data, size_t bytes)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->send(o->state, to, data, bytes, why), why);
}

static int outside_receive(struct comm *c, int from, void *data, size_t bytes)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->receive(o->state, from, data, bytes, why), why);
}

static int outside_sendrecv(struct comm *c, const struct comm_sendrecv *s)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->sendrecv(o->state, s, why), why);
}

static int outside_allreduce(struct comm *c, float *data, size_t n)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->allreduce(o->state, data, n, why), why);
}

static void outside_be_patient(struct comm *c)
{
	struct outside *o = c->state;

	o->p->be_patient(o->state);
}

static void *outside_alloc(struct comm *c, size_t bytes)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";
	void *data = o->p->alloc(o->state, bytes, why);

	if (!data)
		failed(o, -1, why);
	return data;
}

static void outside_release(struct comm *c, void *data)
{
	struct outside *o = c->state;

	o->p->release(o->state, data);
}

static int outside_put(struct comm *c, void *data, const void *host, size_t bytes)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->put(o->state, data, host, bytes, why), why);
}

static int outside_get(struct comm *c, void *host, const void *data, size_t bytes)
{
	struct outside *o = c->state;
	char why[COMM_PLUGIN_WHY] = "";

	return done(o, o->p->get(o->state, host, data, bytes, why), why);
}

static void outside_close(struct comm *c)
{
	struct outside *o = c->state;

	o->p->close(o->state);
	free(o);
}

/* Loads the plug-in's table. The library stays open, because neither MPI nor NCCL survives
 * being closed. */
static const struct comm_plugin *load(const char *file, const char *variable)
{
	const struct comm_plugin *(*entry)(void);
	char why[COMM_PLUGIN_WHY];
	/* libraries that MPI loads itself look for the symbols of libmpi */
	void *so = plugin_open(file, variable, 1, why, sizeof why), *symbol;

	if (!so) {
		err_set(EX_UNAVAILABLE, "%s", why);
		return NULL;
	}
	symbol = dlsym(so, COMM_PLUGIN_ENTRY);
	memcpy(&entry, &symbol, sizeof entry);
	if (!symbol || entry()->abi != COMM_PLUGIN_ABI) {
		err_set(EX_UNAVAILABLE, "%s is not of this version of rnp", file);
		return NULL;
	}
	return entry();
}

static int open_outside(struct comm *c, const struct comm_plugin *p,
	const struct comm_plugin_start *start)
{
	struct outside *o = xcalloc(1, sizeof *o);
	char why[COMM_PLUGIN_WHY] = "";
	int rank, size, rc;

	o->p = p;
	rc = p->open(&o->state, &rank, &size, start, why);
	if (rc < 0) {
		failed(o, rc, why);
		free(o);
		return -1;
	}
	o->ops = (struct comm_ops){ .name = p->name,
		.send = outside_send,
		.receive = outside_receive,
		.sendrecv = outside_sendrecv,
		.allreduce = p->allreduce ? outside_allreduce : NULL,
		.be_patient = p->be_patient ? outside_be_patient : NULL,
		.close = outside_close,
		.alloc = p->alloc ? outside_alloc : NULL,
		.release = p->release ? outside_release : NULL,
		.put = p->put ? outside_put : NULL,
		.get = p->get ? outside_get : NULL };
	*c = (struct comm){ &o->ops, rank, size, o };
	return 0;
}

bool comm_mpi_started(void)
{
	static const char *const variables[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
		"PMIX_RANK", "MPI_LOCALNRANKS" };

	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		if (getenv(variables[i]))
			return true;
	return false;
}

int comm_mpi_open(struct comm *c)
{
	const struct comm_plugin *p = load("librnp_mpi.so", "RNP_MPI_PLUGIN");

	return p ? open_outside(c, p, NULL) : err_add("mpi");
}

/* Finds out whether every rank has succeeded so far: 1 all have, 0 one has not, -1 with
 * err_set. Ranks give up together, since one that continued alone would wait forever in a
 * library that has no time limits. */
static int all_well(struct comm *over, bool well)
{
	float count = well ? 1 : 0;

	if (comm_allreduce(over, &count, 1) < 0)
		return -1;
	return count >= (float)over->size;
}

/* Keeps an error of our own; otherwise reports that of another rank. */
static int together(struct comm *over, int rc)
{
	struct err mine;
	int all;

	err_save(&mine);
	all = all_well(over, rc == 0);
	if (all == 1)
		return 0;
	if (all < 0)
		return -1;
	return rc < 0 ? err_restore(&mine) :
			err_set(EX_UNAVAILABLE, "nccl: not there for another rank");
}

static int share_unique(struct comm *over, unsigned char unique[COMM_UNIQUE_BYTES])
{
	for (int i = 1; over->rank == 0 && i < over->size; i++)
		if (comm_send(over, i, unique, COMM_UNIQUE_BYTES) < 0)
			return -1;
	return over->rank ? comm_receive(over, 0, unique, COMM_UNIQUE_BYTES) : 0;
}

int comm_nccl_open(struct comm *c, struct comm *over, int gpu)
{
	const struct comm_plugin *p = load("librnp_nccl.so", "RNP_NCCL_PLUGIN");
	const char *timeout = getenv("RNP_NCCL_TIMEOUT_MS");
	struct comm_plugin_start start = { over->rank, over->size, gpu,
		timeout ? atoll(timeout) : NCCL_TIMEOUT_MS, { 0 } };
	char why[COMM_PLUGIN_WHY] = "";
	int rc = p ? 0 : err_add("nccl");

	if (p && over->rank == 0 && p->unique(start.unique, why) < 0)
		rc = err_set(EX_UNAVAILABLE, "nccl: %s", why);
	if (together(over, rc) < 0 || share_unique(over, start.unique) < 0)
		return -1;
	rc = open_outside(c, p, &start);
	if (together(over, rc) == 0)
		return 0;
	if (rc == 0)
		comm_close(c);
	return -1;
}
