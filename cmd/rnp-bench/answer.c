/* answer.c - rnp-bench answer: answers the challenges on standard input, and signs the answers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-bench/peer/bandwidth.h"
#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/prove/prove.h"
#include "cmd/rnp-bench/prove/watch.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/lines.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"

static const char *key_path, *verifier, *ca_file, *signer;
static int64_t per_hour_ms = 600000;

static const struct opt opts[] = {
	OPT(TEXT, "verifier", &verifier, "URL",
		"the registry, or rnp-bench serve, that measures the bandwidth"),
	OPT(TEXT, "ca", &ca_file, "F", "trust these certificates, not the system's"),
	OPT(TEXT, "signer", &signer, "A",
		"answer only what this address has signed (default anybody)",
		.address = true),
	OPT_IN(DURATION, "per-hour", &per_hour_ms, "D", 1000, 3600000,
		"how long challenges may take in an hour (default 10min)"),
	OPT_KEY(&key_path),
	{ 0 },
};

/* Memory for rounds that may be opened: a quarter of the machine's, and at most half of what is
 * available now, because a container's limit may be far below the machine's memory. */
static int64_t memory_for_rounds(void)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	int64_t quarter = pages > 0 && size > 0 ? pages / 4 * size : (int64_t)1 << 28;
	int64_t available = hw_available_read();

	return available > 0 && available / 2 < quarter ? available / 2 : quarter;
}

/* Returns the memory of the machine, or of the container. */
static double memory_here(void)
{
	struct hw_limits limits;
	struct hw_causes why = { 0 };
	double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

	hw_limits_read(&limits, &why);
	return limits.memory_bytes > 0 && (double)limits.memory_bytes < all ?
		(double)limits.memory_bytes :
		all;
}

/* Returns the least memory of the host that a device needs: the CPU's fill, and the larger
 * tree. A GPU's own memory is its own limit. */
static double memory_for(const struct poc_device *d, const char *cpu_uuid)
{
	double blocks = (double)(d->lanes * d->per_slice);
	double leaves = fmax(blocks, (double)(d->n * d->rounds));
	bool is_cpu = strcmp(d->uuid, cpu_uuid) == 0;

	return (is_cpu ? blocks * MEMFILL_SLICES * MEMFILL_BYTES : 0) +
		leaves * 2 * POC_HASH_BYTES;
}

/* Refuses challenges beyond this machine's memory: anybody may sign a challenge of a terabyte,
 * and the kernel kills a process that runs out of memory. */
static int check_memory(const struct poc_challenge *c, const char *where)
{
	double need = 0, here = memory_here();
	char cpu_uuid[POC_UUID_MAX];

	poc_cpu_uuid(cpu_uuid, c->node_key);
	for (int i = 0; i < c->ndevices; i++)
		need += memory_for(&c->devices[i], cpu_uuid);
	return need <= here ?
		0 :
		err_set(EX_UNAVAILABLE,
			"%s: the challenge asks for %.1f GiB of memory, and %.1f are here",
			where, need / (1 << 30), here / (1 << 30));
}

/* Writes one of our records, signed now. */
static int write_signed(json_t *record, const struct key *k)
{
	json_set_time(record, "at", clock_now_ms());
	return signature_add(record, k, clock_now_ms() / 1000 * 1000) < 0 ?
		-1 :
		out_record(record);
}

/* The roots are sent first: their own deadline does not include the time of sending the answer. */
static int write_roots(const struct poc_challenge *c, const json_t *answer,
	const struct key *k)
{
	json_t *roots;
	int rc;

	if (!c->roots_ms)
		return 0;
	roots = poc_roots_write(c, answer);
	rc = write_signed(roots, k);
	json_decref(roots);
	return rc;
}

/* A challenge that waits: a busy node gets several, of which the newest has the most time left. */
struct waiting {
	char *line, *where;
	size_t len;
	int64_t beat_ms; /* when it came with a heartbeat, by our clock; 0: not known */
};

static int64_t waited_ms(const struct waiting *w)
{
	return w->beat_ms ? clock_now_ms() - w->beat_ms : 0;
}

/* Whether a challenge has waited here for longer than it gives. */
static int check_time(const struct waiting *w, const struct poc_challenge *c)
{
	struct buf text = BUF_INIT;

	if (waited_ms(w) <= c->deadline_ms)
		return 0;
	buf_adds(&text, "skipped, the challenge gave ");
	human_duration(&text, (double)c->deadline_ms / 1e3);
	buf_adds(&text, " and has waited for ");
	human_duration(&text, (double)waited_ms(w) / 1e3);
	err_set(EX_TEMPFAIL, "%s: %s", w->where, buf_text(&text));
	buf_release(&text);
	return -1;
}

/* Whether a challenge is one that we answer at all. */
static int check_parties(const struct poc_challenge *c, const char *where,
	const struct key *k)
{
	if (strcmp(c->node, k->address) != 0)
		return err_set(EX_DATAERR,
			"%s: the challenge is for %s, not for this key's %s", where,
			c->node, k->address);
	if (signer && strcmp(c->signer, signer) != 0)
		return err_set(EX_NOPERM, "%s: the challenge is by %s, not by --signer",
			where, c->signer);
	return 0;
}

/* Work, and the exchange of bytes beside it, which a challenge that is refused does not get. */
struct work {
	struct watch watch;
	struct bandwidth bandwidth;
};

static void on_begun(void *ctx)
{
	struct work *work = ctx;
	const struct watch *w = &work->watch;

	work->bandwidth.left_ms = w->c->deadline_ms -
		(clock_mono_ns() - w->came_ns) / 1000000;
	bandwidth_start(&work->bandwidth);
}

/* Does the work. Returns the answer, which the caller owns, or NULL. finish_work ends it. */
static json_t *do_work(struct work *work, const struct poc_challenge *c,
	const struct waiting *w, const struct key *k)
{
	json_t *answer;

	*work = (struct work){ .watch = { .c = c,
				       .where = w->where,
				       .came_ns = clock_mono_ns() -
					       waited_ms(w) * 1000000,
				       .per_hour_ms = per_hour_ms,
				       .begun = on_begun,
				       .ctx = work },
		.bandwidth = { .verifier = verifier,
			.ca_file = ca_file,
			.c = c,
			.key = k } };
	if (check_time(w, c) < 0 || check_memory(c, w->where) < 0)
		return NULL;
	answer = prove(c, memory_for_rounds(), watch_start(&work->watch));
	watch_end(&work->watch);
	return answer;
}

/* An answer without the bandwidth is still useful; the error of prove() is kept. */
static void finish_work(struct work *work, const json_t *proved)
{
	struct err error;

	err_save(&error);
	if (bandwidth_finish(&work->bandwidth) < 0)
		prog_warn("no bandwidth was measured: %s", err_get()->text);
	err_clear();
	watch_count(&work->watch);
	if (!proved)
		err_restore(&error);
}

/* Tells the verifier why no answer comes: the pending error, which stays. */
static void write_reason(const struct poc_challenge *c, const char *where,
	const struct key *k)
{
	struct err error;
	const char *reason;
	size_t len = strlen(where);
	json_t *record;

	err_save(&error);
	reason = error.text;
	if (strncmp(reason, where, len) == 0 && strncmp(reason + len, ": ", 2) == 0)
		reason += len + 2;
	record = poc_unanswered_write(c, reason);
	if (write_signed(record, k) < 0)
		err_clear();
	json_decref(record);
	err_restore(&error);
}

/* Sets *signed_one once the answer is computed, so that a later error is one of writing it. */
static int answer(const json_t *record, const struct waiting *w, const struct key *k,
	bool *signed_one)
{
	struct work work;
	struct poc_challenge c;
	json_t *v;
	int rc;

	if (poc_challenge_read(&c, record, w->where) < 0 ||
		check_parties(&c, w->where, k) < 0)
		return -1;
	v = do_work(&work, &c, w, k);
	rc = v ? write_roots(&c, v, k) : 0;
	if (!v)
		write_reason(&c, w->where, k);
	finish_work(&work, v);
	if (!v)
		return -1;
	*signed_one = true;
	if (rc == 0)
		rc = write_signed(v, k);
	json_decref(v);
	return rc;
}

#define WAITING_MAX 64

static struct {
	struct waiting list[WAITING_MAX]; /* the newest last */
	int n;
	int64_t beat_ms; /* of the newest heartbeat */
} queue;

static void drop(struct waiting *w)
{
	free(w->line);
	free(w->where);
}

/* Puts a line into the queue, and of too many drops the oldest. Heartbeats, which rnp-register
 * heartbeat prints as well, say when what follows them came. */
static void enqueue(const char *line, size_t len, const char *where)
{
	json_t *record = json_parse_object(line, len, where);
	const char *at = json_string_value(json_object_get(record, "at"));
	bool beat = record && json_check_kind(record, "", "rnp.heartbeat") == 0;

	err_clear();
	if (beat && (!at || clock_parse(at, where, &queue.beat_ms) < 0))
		err_clear();
	json_decref(record);
	if (beat)
		return;
	if (queue.n == WAITING_MAX) {
		prog_warn("%s: dropped, %d newer challenges wait", queue.list[0].where,
			WAITING_MAX);
		drop(&queue.list[0]);
		memmove(queue.list, queue.list + 1,
			(size_t)--queue.n * sizeof *queue.list);
	}
	queue.list[queue.n++] = (struct waiting){ .line = xstrndup(line, len),
		.where = xstrdup(where),
		.len = len,
		.beat_ms = queue.beat_ms };
}

/* Answers one. Returns the exit code; sets *end when there is no use in going on. */
static int take(const struct waiting *w, const struct key *k, bool *end)
{
	json_t *record = json_parse_object(w->line, w->len, w->where);
	int rc = record ? answer(record, w, k, end) : -1;

	*end = *end && rc < 0;
	json_decref(record);
	return rc < 0 ? err_report() : EX_OK;
}

/* Reads the input that is available, and waits only if there is no other work. Returns 0, or
 * -1. *ended: the input has ended. */
static int read_waiting(struct lines *l, bool *ended)
{
	char *line;
	size_t len;

	while (!*ended && (!queue.n || lines_waiting(l))) {
		int rc = lines_next(l, &line, &len);

		if (rc < 0)
			return -1;
		if (rc > 0)
			enqueue(line, len, lines_where(l));
		*ended = rc == 0;
	}
	return 0;
}

static int run(int nargs, char **args)
{
	struct key k = KEY_INIT;
	struct lines l;
	int code = EX_OK, rc = key_load(&k, key_path, NULL);
	bool end = false, ended = false;

	lines_open(&l, args, nargs, POC_CHALLENGE_BYTES_MAX);
	/* Reports a challenge that it cannot answer, then continues with the next one and keeps
	 * the heartbeats' pipe open. */
	while (rc == 0 && !end && (rc = read_waiting(&l, &ended)) == 0 && queue.n) {
		struct waiting newest = queue.list[--queue.n];
		int this_code = take(&newest, &k, &end);

		code = code ? code : this_code;
		drop(&newest);
	}
	if (rc < 0)
		rc = err_report();
	while (queue.n)
		drop(&queue.list[--queue.n]);
	lines_close(&l);
	key_release(&k);
	return code ? code : rc;
}

const struct command command_answer = {
	.name = "answer",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Answer challenges to this node.",
	.details =
		"Reads rnp.challenge records, computes what they ask and writes one signed rnp.answer each;\n"
		"the rnp.heartbeat records between them are passed over.\n"
		"Of several that wait in a pipe the newest is answered first.\n"
		"What cannot end in its time, or in the time that an hour has for challenges, is refused.\n"
		"A challenge that is not answered is reported, with an rnp.unanswered for the verifier,\n"
		"and the next one is answered.\n"
		"The exit status is that of the first error.",
	.columns = "node,challenge_sha256,at",
	.card = true,
	.opts = opts,
	.run = run,
};
