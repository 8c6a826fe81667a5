/* ranks.c - what rank 0 of a worker tells the other ranks, and what they do with it. */
#include "cmd/rnp-train/worker/ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"

/* ORDER_END: nothing follows */
enum order { ORDER_RUN, ORDER_STATE, ORDER_STEP, ORDER_END };

/* A command of rank 0; what follows it is named beside it. */
struct command_of_rank0 {
	uint64_t order;
	uint64_t record_bytes, rows; /* ORDER_RUN: the run's record, as text */
	uint64_t adam, adam_steps;   /* ORDER_STATE: parameters; adam: m and v, too */
	uint64_t step, fresh_warmup; /* ORDER_STEP: batch x (length + 1) ids, u32 */
};

/* --- ranks ------------------------------------------------------------------------------------ */

static int open_mpi(struct comm *c, void *arg)
{
	(void)arg;
	return comm_mpi_open(c);
}

static unsigned is_stopped(void)
{
	return worker_stop_signal() != 0;
}

/* The ranks of a machine take the GPUs that were named one after the other. */
static int choose_device(struct worker *w, const struct launch *l, bool mpi)
{
	int local;

	if (ddp_local_rank(w->group.ranks, &local, &w->group.local) < 0)
		return -1;
	if (l->n)
		w->o.device = l->names[(mpi ? local : l->rank) % l->n];
	return 0;
}

int worker_open_ranks(struct worker *w, struct launch *l, bool mpi)
{
	struct ddp_options o = { .open = mpi ? open_mpi : launch_join,
		.arg = l,
		.overlap = true,
		.stop_flags = is_stopped };

	if (ddp_open(&w->group.ranks, &o) < 0)
		return -1;
	w->group.rank = ddp_rank(w->group.ranks);
	w->group.size = ddp_size(w->group.ranks);
	return choose_device(w, l, mpi);
}

/* A failure here leaves the ranks in different places: they cannot go on together. */
static int tell(struct worker *w, void *data, size_t bytes)
{
	if (ddp_broadcast(w->group.ranks, data, bytes) == 0)
		return 0;
	w->group.apart = true;
	return -1;
}

static int order(struct worker *w, struct command_of_rank0 c)
{
	return tell(w, &c, sizeof c);
}

void worker_close_ranks(struct worker *w, struct launch *l, bool failed)
{
	struct err why;

	if (!w->group.ranks)
		return;
	err_save(&why);
	if (w->group.rank == 0 && !w->group.apart &&
		order(w, (struct command_of_rank0){ .order = ORDER_END }) < 0 && !failed)
		err_save(&why);
	if (w->group.apart || (failed && w->group.rank)) {
		err_restore(&why);
		if (l->rank >= 0)
			launch_leave(l);
		err_add("rank %d", w->group.rank);
		_exit(err_report());
	}
	ddp_close(w->group.ranks);
	w->group.ranks = NULL;
	if (failed)
		err_restore(&why);
}

/* --- the run ---------------------------------------------------------------------------------- */

int worker_share_batch(struct worker *w, uint64_t *rows)
{
	uint64_t batch = w->run.batch, size = (uint64_t)w->group.size;

	*rows = w->o.micro ? (uint64_t)w->o.micro : batch / size;
	if (batch % size)
		return err_set(EX_USAGE,
			"the run's batch of %llu cannot be shared by %d ranks",
			(unsigned long long)batch, w->group.size);
	if (batch / size % *rows)
		return err_set(EX_USAGE,
			"the run's batch of %llu is not a multiple of --micro-batch %llu%s",
			(unsigned long long)batch, (unsigned long long)*rows,
			w->group.size > 1 ? " on each rank" : "");
	return 0;
}

/* Counts the GPUs of all ranks by their uuids; one without an uuid counts as one of its own. */
static int count_gpus(struct worker *w)
{
	size_t size = (size_t)w->group.size;
	uint64_t mine[3] = { !w->d.is_host }, *all = xcalloc(size, sizeof mine);
	int rc;

	memcpy(mine + 1, w->d.uuid, sizeof w->d.uuid);
	rc = ddp_allgather(w->group.ranks, mine, 3, all);
	w->group.gpus = 0;
	for (size_t i = 0; rc == 0 && i < size; i++) {
		const uint64_t *one = all + 3 * i;
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again = again ||
				((one[1] | one[2]) &&
					memcmp(all + 3 * k, one, sizeof mine) == 0);
		w->group.gpus += one[0] && !again;
	}
	free(all);
	w->group.apart = w->group.apart || rc < 0;
	return rc;
}

int worker_lead_run(struct worker *w, uint64_t rows, const struct lm_train_options *o)
{
	struct command_of_rank0 c = { .order = ORDER_RUN, .rows = rows };
	struct buf text = BUF_INIT;
	int rc;

	if (!w->group.ranks)
		return 0;
	json_write(&text, w->record);
	c.record_bytes = text.len;
	rc = order(w, c);
	if (rc == 0)
		rc = tell(w, text.data, text.len);
	if (rc == 0)
		rc = count_gpus(w);
	if (rc == 0)
		rc = worker_plan_ranks(w, o);
	buf_release(&text);
	return rc;
}

/* Text comes with each step: a rank reads no files. */
static int read_step_text(void *arg, uint64_t n, uint32_t *ids)
{
	struct worker *w = arg;
	size_t count = (size_t)w->run.length + 1;

	memcpy(ids, w->text.now.data + n * count * sizeof *ids, count * sizeof *ids);
	return 0;
}

static int follow_run(struct worker *w, const struct command_of_rank0 *c)
{
	struct lm_loop_options l;
	char *text = xmalloc(c->record_bytes + 1);
	int rc = tell(w, text, c->record_bytes);

	if (rc == 0) {
		w->record = json_parse_object(text, c->record_bytes, "the run's record");
		rc = w->record ? training_read(&w->run, w->record, "the run's record") :
				 -1;
	}
	free(text);
	/* before the loop, as rank 0 does */
	if (rc < 0 || device_open(&w->d, w->o.device) < 0 || count_gpus(w) < 0)
		return -1;
	worker_loop_options(w, c->rows, &l);
	l.sequence = read_step_text;
	return worker_plan_ranks(w, &l.train) < 0 ? -1 :
						    lm_loop_open(&w->loop, &w->d, &l);
}

/* --- parameters and AdamW's state ------------------------------------------------------------- */

/* One array of the trainer, from rank 0 to all. */
static int share_array(struct worker *w, enum lm_state what)
{
	struct lm_train *t = w->loop.train;
	uint64_t n = lm_flat_count(t);
	float *values = xmalloc(CONTAINER_FLOATS * sizeof *values);
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < n; at += CONTAINER_FLOATS) {
		uint64_t part = n - at < CONTAINER_FLOATS ? n - at : CONTAINER_FLOATS;

		if (w->group.rank == 0)
			rc = lm_flat_get(t, what, at, part, values);
		if (rc == 0)
			rc = tell(w, values, part * sizeof *values);
		if (rc == 0 && w->group.rank)
			rc = lm_flat_set(t, what, at, part, values);
	}
	w->group.apart = w->group.apart || rc < 0;
	free(values);
	return rc;
}

static int share_state(struct worker *w, bool adam)
{
	if (share_array(w, LM_STATE_PARAMETER) < 0)
		return -1;
	if (!adam)
		return 0;
	return share_array(w, LM_STATE_M) < 0 ? -1 : share_array(w, LM_STATE_V);
}

int worker_lead_state(struct worker *w, bool adam)
{
	struct command_of_rank0 c = { .order = ORDER_STATE,
		.adam = adam,
		.adam_steps = lm_train_steps(w->loop.train) };

	if (!w->group.ranks)
		return 0;
	return order(w, c) < 0 ? -1 : share_state(w, adam);
}

/* --- steps ------------------------------------------------------------------------------------ */

static size_t step_bytes(const struct worker *w)
{
	return (size_t)w->run.batch * (w->run.length + 1) * sizeof(uint32_t);
}

int worker_lead_step(struct worker *w)
{
	struct command_of_rank0 c = { .order = ORDER_STEP,
		.step = w->loop.step,
		.fresh_warmup = w->loop.o.schedule.fresh_warmup };
	size_t count = (size_t)w->run.length + 1;
	uint64_t next;
	uint32_t *ids;
	int rc = 0;

	if (!w->group.ranks)
		return 0;
	next = lm_loop_next(&w->loop);
	ids = xmalloc(step_bytes(w));
	for (uint64_t i = 0; rc == 0 && i < w->run.batch; i++)
		rc = worker_read_text(w, next + i, ids + i * count);
	if (rc == 0)
		rc = order(w, c);
	if (rc == 0)
		rc = tell(w, ids, step_bytes(w));
	free(ids);
	return rc;
}

int worker_make_step(struct worker *w, struct lm_step *step)
{
	int rc = lm_loop_step(&w->loop, step);

	if (!w->group.ranks)
		return rc;
	/* the loss of all is not finite on any of them */
	w->group.alike = rc < 0 && err_get()->code == EX_DATAERR;
	w->group.apart = w->group.apart || (rc < 0 && !w->group.alike);
	/* a signal at one rank is one for all */
	if (rc == 0 && lm_loop_stop_flags(&w->loop) && !*w->stopped)
		raise(SIGTERM);
	return rc;
}

static int follow_step(struct worker *w, const struct command_of_rank0 *c)
{
	struct lm_step step;

	buf_reset(&w->text.now);
	buf_reserve(&w->text.now, step_bytes(w));
	if (tell(w, w->text.now.data, step_bytes(w)) < 0)
		return -1;
	w->loop.step = c->step;
	w->loop.o.schedule.fresh_warmup = c->fresh_warmup;
	lm_loop_take_back(&w->loop);
	lm_loop_give(&w->loop, (struct lm_range){ 0, w->run.batch });
	return worker_make_step(w, &step);
}

int worker_follow(struct worker *w)
{
	if (worker_watch(w) < 0)
		return -1;
	for (;;) {
		struct command_of_rank0 c;
		int rc = tell(w, &c, sizeof c);

		if (rc < 0 || c.order == ORDER_END)
			return rc;
		switch ((enum order)c.order) {
		case ORDER_RUN:
			rc = follow_run(w, &c);
			break;
		case ORDER_STATE:
			lm_train_set_steps(w->loop.train, c.adam_steps);
			rc = share_state(w, c.adam);
			break;
		default:
			rc = follow_step(w, &c);
			break;
		}
		/* rank 0 has the same error, says it, and ends all */
		if (rc < 0 && w->group.alike)
			err_clear();
		else if (rc < 0)
			return -1;
	}
}
