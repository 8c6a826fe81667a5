/* data.c - the run's text: what is on this machine already, or fetched whole, or just the
 * sequences of a turn; and the plan of memory and disk before anything is fetched. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/worker/worker.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/hw/hw.h"
#include "common/json/json.h"

#define SHARD_BYTES_MAX (LM_SHARD_HEADER_BYTES + LM_SHARD_IDS * 4)

/* --- plan ------------------------------------------------------------------------------------- */

/* The greatest size of the state: parameters, AdamW's m and v and the residual, their
 * predecessors while they are replaced, and containers. */
static uint64_t state_bytes(const struct worker *w)
{
	uint64_t n = w->run.parameters;
	/* streaming: also its own parameters, and what deltas are measured from */
	uint64_t arrays = training_streams(&w->run) ? 12 : 8;

	return n * 4 * arrays + container_bytes_max(w->run.method, n) +
		container_bytes_max("lossless", n);
}

static uint64_t text_bytes(const struct worker *w)
{
	return w->run.tokens * protocol_id_bytes(w->run.config.vocab) +
		PROTOCOL_SHARDS_MAX * LM_SHARD_HEADER_BYTES;
}

static uint64_t turn_text_bytes(const struct worker *w)
{
	return w->run.batch * w->run.inner_steps * ((uint64_t)w->run.length + 1) *
		protocol_id_bytes(w->run.config.vocab);
}

static uint64_t free_bytes(struct dev *d)
{
	uint64_t cap = 0;
	int64_t there = d->is_host ? hw_available_read() : 0;

	if (!there && d->ops->mem_free(d, &cap) == 0)
		there = (int64_t)cap;
	return there > 0 ? (uint64_t)there : UINT64_MAX;
}

/* The host's memory that streaming takes beside the steps: what deltas are measured from, copies of
 * parameters, m and v that are saved meanwhile, and what the containers leave out. */
static uint64_t stream_bytes(const struct worker *w)
{
	return training_streams(&w->run) ? w->run.parameters * 5 * sizeof(float) : 0;
}

/* What all ranks need that take of the same memory as this one: those of a machine, of the host's.
 */
static uint64_t need_bytes(const struct worker *w, const struct lm_train_plan *p)
{
	return w->d.is_host ? p->total * (uint64_t)w->group.local + stream_bytes(w) :
			      p->total;
}

static int write_plan(const struct worker *w, const struct lm_train_plan *p,
	uint64_t there, uint64_t disk)
{
	json_t *r = json_record("rnp.plan");
	int rc;

	if (w->group.size > 1)
		json_set_i64(r, "ranks", w->group.size);

	json_set_text(r, "model", w->o.url);
	json_set_text(r, "device", w->d.name);
	json_set_i64(r, "parameters", (int64_t)w->run.parameters);
	json_set_i64(r, "parameters_bytes", (int64_t)p->parameters);
	json_set_i64(r, "copies_bytes", (int64_t)p->copies);
	json_set_i64(r, "gradients_bytes", (int64_t)p->gradients);
	json_set_i64(r, "optimiser_bytes", (int64_t)p->optimiser);
	json_set_i64(r, "activations_bytes", (int64_t)p->activations);
	json_set_i64(r, "work_bytes", (int64_t)p->scratch);
	if (stream_bytes(w))
		json_set_i64(r, "stream_bytes", (int64_t)stream_bytes(w));
	json_set_i64(r, "total_bytes",
		(int64_t)(p->total + (w->d.is_host ? stream_bytes(w) : 0)));
	json_set_i64(r, "disk_bytes", (int64_t)disk);
	if (there != UINT64_MAX) {
		json_set_i64(r, "available_bytes", (int64_t)there);
		json_set_bool(r, "fits", need_bytes(w, p) <= there);
	}
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int check_memory(uint64_t need, uint64_t there, int ranks)
{
	struct buf needs = BUF_INIT, is_free = BUF_INIT;
	char of[64] = "";

	if (need <= there)
		return 0;
	if (ranks > 1)
		snprintf(of, sizeof of, " for %d ranks", ranks);
	human_bytes(&needs, (double)need);
	human_bytes(&is_free, (double)there);
	err_set(EX_DATAERR,
		"the run takes %s of memory%s, and %s is free; a smaller --micro-batch takes "
		"less",
		needs.data, of, is_free.data);
	buf_release(&needs);
	buf_release(&is_free);
	return -1;
}

int worker_plan_ranks(struct worker *w, const struct lm_train_options *o)
{
	struct lm_train_plan p;
	struct ddp_memory m;
	int rc = lm_train_plan(&p, &w->d, o);

	if (rc == 0 && w->d.is_host && w->group.rank == 0)
		p.total += stream_bytes(w);
	if (rc == 0)
		rc = ddp_memory(w->group.ranks, &w->d, p.total, free_bytes(&w->d), &m);
	w->group.apart = w->group.apart || rc < 0;
	if (rc < 0)
		return rc;
	w->group.alike = m.need > m.there;
	return check_memory(m.need, m.there, m.ranks);
}

int worker_plan(struct worker *w, const struct lm_train_options *o)
{
	struct lm_train_plan p;
	uint64_t there = free_bytes(&w->d), disk = state_bytes(w);
	int64_t host;

	if (lm_train_plan(&p, &w->d, o) < 0)
		return -1;
	if (!w->o.data) {
		w->text.by_assignment = w->o.disk &&
			disk + text_bytes(w) > (uint64_t)w->o.disk;
		disk += w->text.by_assignment ? turn_text_bytes(w) : text_bytes(w);
	}
	if (w->o.plan)
		return write_plan(w, &p, there, disk);
	if (w->o.disk && disk > (uint64_t)w->o.disk)
		return err_set(EX_DATAERR,
			"the run takes %llu bytes of disk, more than --disk %lld",
			(unsigned long long)disk, (long long)w->o.disk);
	if (!w->d.is_host && stream_bytes(w) && (host = hw_available_read()) > 0 &&
		check_memory(stream_bytes(w), (uint64_t)host, 1) < 0)
		return -1;
	return check_memory(need_bytes(w, &p), there, w->d.is_host ? w->group.local : 1);
}

/* --- shards ----------------------------------------------------------------------------------- */

/* The name of a set is the hash of the digests of its shards. */
static void set_digest(const struct lm_shards *set, char hex[PROTOCOL_HEX])
{
	crypto_generichash_state h;
	unsigned char all[32];

	crypto_generichash_init(&h, NULL, 0, 32);
	for (uint32_t i = 0; i < set->n; i++)
		crypto_generichash_update(&h, set->shards[i].digest, 32);
	crypto_generichash_final(&h, all, 32);
	protocol_hex(hex, all);
}

static int open_shards(struct worker *w, const char *path)
{
	char hex[PROTOCOL_HEX];

	if (lm_shards_open(&w->text.shards, path) < 0)
		return -1;
	set_digest(&w->text.shards, hex);
	if (strcmp(hex, w->run.digest) != 0)
		return err_set(EX_DATAERR, "%s: is not the text of this run", path);
	if (w->text.shards.count != w->run.tokens ||
		w->text.shards.vocab > w->run.config.vocab)
		return err_set(EX_DATAERR, "%s: does not go with the run's model", path);
	if (lm_shards_check(&w->text.shards, NULL, NULL) < 0)
		return err_add("%s", path);
	return shuffle_init(&w->text.shuffle, w->text.shards.count, w->run.length,
		w->run.seed);
}

/* All shards by their digests, those that are here already left out. */
static int fetch_shards(struct worker *w, const char *dir)
{
	const json_t *shards = json_object_get(json_object_get(w->record, "data"),
		"shards");
	uint64_t left = text_bytes(w);
	int rc = io_make_dirs(dir, 0777);

	for (size_t i = 0; rc == 0 && i < json_array_size(shards); i++) {
		struct buf to = BUF_INIT;
		char path[128];
		struct stat st;

		snprintf(path, sizeof path, "/v1/data/%s",
			json_string_value(json_array_get(shards, i)));
		buf_addf(&to, "%s/%05zu%s", dir, i, LM_SHARD_SUFFIX);
		if (access(to.data, F_OK) != 0)
			rc = client_fetch(&w->client, path, to.data,
				left < SHARD_BYTES_MAX ? left : SHARD_BYTES_MAX, NULL);
		if (rc == 1)
			rc = err_set(EX_DATAERR, "the coordinator has not its own text");
		if (rc == 0 && stat(to.data, &st) == 0)
			left -= (uint64_t)st.st_size < left ? (uint64_t)st.st_size : left;
		buf_release(&to);
	}
	return rc;
}

/* Removes data that turned out not to be the run's text. */
static void drop_shards(const char *dir, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct buf path = BUF_INIT;

		buf_addf(&path, "%s/%05zu%s", dir, i, LM_SHARD_SUFFIX);
		unlink(path.data);
		buf_release(&path);
	}
}

int worker_open_data(struct worker *w)
{
	char *dir;
	int rc;

	if (w->o.data)
		return open_shards(w, w->o.data);
	if (w->text.by_assignment) {
		prog_info(
			"the text is larger than --disk allows: each turn's is fetched");
		return 0;
	}
	dir = join_state_path(&w->state, "data");
	rc = fetch_shards(w, dir);
	if (rc == 0) {
		rc = open_shards(w, dir);
		if (rc < 0 && err_get()->code == EX_DATAERR)
			drop_shards(dir,
				json_array_size(json_object_get(json_object_get(w->record,
									"data"),
					"shards")));
	}
	free(dir);
	return rc;
}

/* --- the sequences of a turn ------------------------------------------------------------------ */

int worker_get_text(struct worker *w, const struct assignment *a, struct buf *text)
{
	uint64_t size = protocol_id_bytes(w->run.config.vocab);
	uint64_t sequence = ((uint64_t)w->run.length + 1) * size;
	uint64_t at_once = PROTOCOL_PIECE_BYTES / (((uint64_t)w->run.length + 1) * 4);
	int rc = 0;

	if (!w->text.by_assignment)
		return 0;
	if (!at_once)
		at_once = 1;
	buf_reset(text);
	for (uint64_t n = 0; rc == 0 && n < a->sequences; n += at_once) {
		uint64_t count = a->sequences - n < at_once ? a->sequences - n : at_once;
		struct http_response r = HTTP_RESPONSE_INIT;
		struct client_request q = { .method = "GET", .timeout_ms = 600000 };
		char path[128];

		snprintf(path, sizeof path, "/v1/tokens?from=%llu&count=%llu",
			(unsigned long long)(a->first + n), (unsigned long long)count);
		q.path = path;
		rc = client_send(&w->client, &q, &r);
		if (rc == 0 && r.status != 200)
			rc = client_refused(&r, EX_DATAERR, "asking for text");
		if (rc == 0 && r.body.len != count * sequence)
			rc = err_set(EX_DATAERR,
				"the coordinator's text has another length than was asked for");
		if (rc == 0)
			buf_add(text, r.body.data, r.body.len);
		http_response_release(&r);
	}
	return rc;
}

int worker_read_text(void *arg, uint64_t n, uint32_t *ids)
{
	struct worker *w = arg;
	uint64_t count = (uint64_t)w->run.length + 1;
	uint64_t size = count * protocol_id_bytes(w->run.config.vocab);

	if (!w->text.by_assignment)
		return lm_shards_get(&w->text.shards, shuffle_at(&w->text.shuffle, n),
			count, ids);
	if (n < w->text.first || (n - w->text.first + 1) * size > w->text.now.len)
		bug("sequence %llu is not of the turn", (unsigned long long)n);
	if (!protocol_unpack(ids, w->text.now.data + (n - w->text.first) * size, count,
		    w->run.config.vocab))
		return err_set(EX_DATAERR, "the coordinator's text has an id beyond %u",
			w->run.config.vocab);
	return 0;
}

/* --- the month's quota ------------------------------------------------------------------------ */

/* of a parameter, when all are fetched: a little less than it takes */
#define PARAMS_BYTES 3

/* Locks the count, which workers of other runs on this machine share, so that one at a time reads
 * and writes it. Returns a
 * descriptor, which the caller closes, or -1 without the lock. */
static int lock_count(const struct worker *w)
{
	char *root = join_state_path(&w->state, "..");
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		lock_wait(fd, root, w->stopped);
	free(root);
	return fd;
}

/* The count of transferred bytes lies in the state's root, with the month that it is of: all runs
 * share it. */
int worker_count_bytes(struct worker *w, int64_t *bytes)
{
	int lock_fd = lock_count(w);
	struct net_bytes now;
	struct buf text = BUF_INIT, path = BUF_INIT;
	int64_t used = 0, month_is, at_ms = client_now_ms(&w->client);
	time_t s = (time_t)(at_ms / 1000);
	struct tm t;
	json_t *was = NULL;
	int rc;

	gmtime_r(&s, &t);
	month_is = (t.tm_year + 1900) * 100 + t.tm_mon + 1;
	buf_addf(&path, "%s/../quota.json", w->state.dir);
	if (access(path.data, F_OK) == 0 && io_read(&text, path.data, 4096) == 0 &&
		(was = json_parse_object(buf_text(&text), text.len, path.data))) {
		if (json_integer_value(json_object_get(was, "month")) == month_is)
			used = json_integer_value(json_object_get(was, "bytes"));
	}
	err_clear();
	http_bytes(&w->client.http, &now);
	used += (int64_t)(now.sent + now.received - w->quota.counted);
	w->quota.counted = now.sent + now.received;
	buf_reset(&text);
	buf_addf(&text, "{\"month\":%lld,\"bytes\":%lld}\n", (long long)month_is,
		(long long)used);
	rc = io_replace(path.data, text.data, text.len, 0644);
	if (lock_fd >= 0)
		close(lock_fd);
	*bytes = used;
	json_decref(was);
	buf_release(&text);
	buf_release(&path);
	return rc;
}

/* An assignment is expected to carry as many bytes as the last one did, and at least those of all
 * parameters where they are not here yet. */
int worker_quota(struct worker *w)
{
	int64_t used, needs;

	if (!w->o.quota)
		return 0;
	if (worker_count_bytes(w, &used) < 0)
		return -1;
	if (used >= w->o.quota)
		return err_set(EX_TEMPFAIL,
			"this month's quota is used up: %lld bytes of --quota %lld",
			(long long)used, (long long)w->o.quota);
	needs = w->state.published ? 0 : (int64_t)w->run.parameters * PARAMS_BYTES;
	if (w->quota.last && used - w->quota.last > needs)
		needs = used - w->quota.last;
	w->quota.last = used;
	if (needs > w->o.quota - used)
		return err_set(EX_TEMPFAIL,
			"this month's quota has no room for a turn of about %lld bytes: %lld of "
			"--quota %lld are used",
			(long long)needs, (long long)used, (long long)w->o.quota);
	return 0;
}
