/* open.c - a run over a network is made or found: its record, its database, the arrays
 * of its parameters. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/judging.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "cmd/rnp-train/coordinator/pieces.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/grad/grad.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/export/export.h"
#include "common/record/signature.h"

#define OUTER_RATE_STREAMING 0.4 /* as in Streaming DiLoCo, arXiv 2501.18512 */

/* after the median of arrivals: machines that are equal differ so much */
#define SLACK_MS 1000

/* of signed requests; the oldest of more go */
#define NONCES 65536

/* --- what the run is ------------------------------------------------------------------------ */

static int set_method(char to[PROTOCOL_METHOD_MAX], const char *method)
{
	struct grad g;

	if (grad_parse(&g, method, 0) < 0)
		return -1;
	if (g.q.stochastic)
		return err_set(EX_USAGE,
			"method '%s' would need a seed that all agree on", method);
	grad_name(to, &g);
	return 0;
}

static int set_numbers(struct training *t, const struct coordinator_options *o)
{
	struct outer_nesterov outer = outer_nesterov_defaults(t->rounds);
	double usual = training_streams(t) ? OUTER_RATE_STREAMING : outer.rate;
	double rate = o->given("outer-rate") ? o->outer_rate : usual;
	double momentum = o->given("outer-momentum") ? o->outer_momentum : outer.momentum;

	return protocol_units(&t->lr_ppb, o->lr, 1e9, 1000, "lr") < 0 ||
			protocol_units(&t->lr_min_ppm, o->lr_min, 1e6, 1, "lr-min") < 0 ||
			protocol_units(&t->beta1_ppm, o->beta1, 1e6, 1, "beta1") < 0 ||
			protocol_units(&t->beta2_ppm, o->beta2, 1e6, 1, "beta2") < 0 ||
			protocol_units(&t->decay_ppm, o->decay, 1e6, 1000,
				"weight-decay") < 0 ||
			protocol_units(&t->clip_ppm, o->clip, 1e6, 1e6, "clip") < 0 ||
			protocol_units(&t->outer_rate_ppm, rate, 1e6, 100, "outer-rate") <
				0 ||
			protocol_units(&t->outer_momentum_ppm, momentum, 1e6, 1,
				"outer-momentum") < 0 ?
		-1 :
		0;
}

static json_t *set_data(struct training *t, const struct lm_shards *set)
{
	json_t *shards = json_array();

	for (uint32_t i = 0; i < set->n; i++) {
		char hex[PROTOCOL_HEX];

		protocol_hex(hex, set->shards[i].digest);
		json_push_text(shards, hex);
	}
	coordinate_digest(set, t->digest);
	protocol_hex(t->tokenizer, set->tokenizer);
	t->tokens = set->count;
	return shards;
}

/* A quorum that may be there together, and makes a round. dn takes changes one by one, whatever the
 * rule. */
static int check_quorum(const struct coordinator_options *o, const struct training *t)
{
	size_t least = aggregate_least(&t->aggregate);

	if (o->workers_max && o->workers_max < o->workers)
		return err_set(EX_USAGE,
			"--workers %lld never come together with --workers-max %lld",
			(long long)o->workers, (long long)o->workers_max);
	if (t->outer != UPDATE_DN && t->quorum < least)
		return err_set(EX_USAGE, "--aggregate %s needs --workers %zu",
			o->aggregate, least);
	return 0;
}

static int set_run(struct coordinator *g, const struct lm_config *c)
{
	const struct coordinator_options *o = &g->o;
	struct training *t = &g->run;
	uint64_t steps;

	memcpy(t->node, g->key.address, sizeof t->node);
	t->config = *c;
	t->parameters = lm_config_params(c);
	t->seed = o->seed;
	t->batch = (uint64_t)o->batch;
	t->inner_steps = (uint64_t)o->inner_steps;
	t->rounds = (uint64_t)o->rounds;
	t->warm = (uint64_t)o->warm;
	t->fragments = (uint64_t)o->fragments;
	t->overlap = (uint64_t)o->overlap;
	t->quorum = (uint64_t)o->workers;
	t->length = (uint32_t)(o->length ? o->length :
			c->context < 512 ? c->context :
					   512);
	steps = training_steps_before(t, training_rounds(t));
	t->warmup = o->warmup >= 0    ? (uint64_t)o->warmup :
		steps && steps < 1000 ? steps / 10 :
					100;
	t->f32 = strcmp(o->precision, "f32") == 0;
	/* by default nobody's work is lost, where nothing else speaks against it */
	t->late_count = o->late ? strcmp(o->late, "count") == 0 :
				  strcmp(o->outer, "dn") != 0 && !training_streams(t);
	t->uusd_per_million_tokens = o->uusd_per_million_tokens;
	t->credits_per_million_tokens = o->credits_per_million_tokens;
	if (t->seed > (uint64_t)JSON_SAFE_INTEGER_MAX)
		return err_set(EX_USAGE, "--seed: at most 2^53 - 1");
	if (update_parse(&t->outer, o->outer) < 0 ||
		aggregate_parse(&t->aggregate, o->aggregate) < 0 ||
		set_method(t->method, o->method) < 0 ||
		set_method(t->method_down, o->method_down ? o->method_down : o->method) <
			0)
		return -1;
	t->piece_bytes = protocol_piece_bytes(
		container_bytes_max(t->method, t->parameters));
	if (check_quorum(o, t) < 0)
		return -1;
	if (!training_stream_fits(t))
		return err_set(EX_USAGE,
			"--fragments %lld and --overlap %lld: at most %u layers, steps for each beyond the overlap, and no --warm, --late count or --outer dn",
			(long long)o->fragments, (long long)o->overlap, c->layers);
	return set_numbers(t, o);
}

/* The record of the run, signed, and read back as a worker reads it. */
static int sign_run(struct coordinator *g, json_t *shards)
{
	int64_t now_ms = clock_now_ms();
	json_t *record = training_write(&g->run, shards, now_ms);
	struct buf text = BUF_INIT;
	int rc = signature_add(record, &g->key, now_ms);

	if (rc == 0)
		rc = training_read(&g->run, record, "this run");
	json_write(&text, record);
	g->run_text = buf_take(&text);
	json_decref(record);
	return rc;
}

static int load_run(struct coordinator *g, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *record = NULL;
	int rc = io_read(&text, path, PROTOCOL_RECORD_BYTES);

	if (rc == 0 && !(record = json_parse_object(buf_text(&text), text.len, path)))
		rc = -1;
	if (rc == 0)
		rc = training_read(&g->run, record, path);
	json_decref(record);
	if (rc == 0)
		g->run_text = buf_take(&text);
	buf_release(&text);
	return rc;
}

/* A run that an option does not fit: how to go on with it, and how to begin anew. */
static int another(const struct coordinator *g, const char *path, const char *option)
{
	err_set(EX_USAGE, "%s: the run has another --%s, and a run never changes", path,
		option);
	return err_hint(
		"leave --%s out to go on with it; to begin anew from '%s' as it is now, "
		"remove '%s'",
		option, g->o.model, g->dir);
}

/* A run goes on with what it began with; options that were given must say the same. */
static int check_same(const struct coordinator *g, const struct training *now,
	const char *path)
{
	const struct training *was = &g->run;
	const struct {
		const char *option;
		bool same;
	} all[] = { { "key", strcmp(was->node, now->node) == 0 },
		{ "data", strcmp(was->digest, now->digest) == 0 },
		{ "seed", was->seed == now->seed }, { "batch", was->batch == now->batch },
		{ "length", was->length == now->length },
		{ "inner-steps", was->inner_steps == now->inner_steps },
		{ "rounds", was->rounds == now->rounds },
		{ "workers", was->quorum == now->quorum },
		{ "warmup", was->warmup == now->warmup },
		{ "warm", was->warm == now->warm },
		{ "fragments", was->fragments == now->fragments },
		{ "overlap", was->overlap == now->overlap },
		{ "precision", was->f32 == now->f32 },
		{ "lr", was->lr_ppb == now->lr_ppb },
		{ "lr-min", was->lr_min_ppm == now->lr_min_ppm },
		{ "beta1", was->beta1_ppm == now->beta1_ppm },
		{ "beta2", was->beta2_ppm == now->beta2_ppm },
		{ "weight-decay", was->decay_ppm == now->decay_ppm },
		{ "clip", was->clip_ppm == now->clip_ppm },
		{ "outer", was->outer == now->outer },
		{ "aggregate",
			was->aggregate.kind == now->aggregate.kind &&
				was->aggregate.trim == now->aggregate.trim &&
				was->aggregate.evil == now->aggregate.evil },
		{ "late", was->late_count == now->late_count },
		{ "outer-rate", was->outer_rate_ppm == now->outer_rate_ppm },
		{ "outer-momentum", was->outer_momentum_ppm == now->outer_momentum_ppm },
		{ "method", strcmp(was->method, now->method) == 0 },
		{ "method-down", strcmp(was->method_down, now->method_down) == 0 },
		{ "uusd-per-million-tokens",
			was->uusd_per_million_tokens == now->uusd_per_million_tokens },
		{ "credits-per-million-tokens",
			was->credits_per_million_tokens ==
				now->credits_per_million_tokens } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!all[i].same && g->o.given(all[i].option))
			return another(g, path, all[i].option);
	if (strcmp(was->node, now->node) != 0)
		return err_set(EX_USAGE, "%s: the run is %s's, and the key is %s's", path,
			was->node, now->node);
	if (strcmp(was->digest, now->digest) != 0)
		return err_set(EX_USAGE, "%s: the run has another text", path);
	return 0;
}

/* --- the arrays ------------------------------------------------------------------------------ */

/* With zeros, or the model's parameters, or those of x. */
static int make_array(struct coordinator *g, const char *name,
	const struct model_file *from, const float *x, char hex[PROTOCOL_HEX])
{
	struct flatfile f = FLATFILE_INIT;
	unsigned char hash[32];
	uint64_t at = 0;
	int rc = flatfile_make(&f, g->dir, name, g->run.parameters);

	for (uint32_t i = 0; rc == 0 && from && i < lm_layout_count(&g->run.config);
		i++) {
		const struct lm_tensor *t = model_file_tensor(from, i);

		lm_to_f32(f.x + at, t->data, t->type, t->count);
		at += t->count;
	}
	if (rc == 0 && x)
		memcpy(f.x, x, f.n * sizeof *x);
	if (rc == 0 && hex) {
		flatfile_hash(f.x, f.n, hash);
		protocol_hex(hex, hash);
	}
	if (rc == 0)
		rc = flatfile_keep(&f);
	flatfile_close(&f);
	return rc;
}

/* The first turn of the parent, and the parameters that it begins with. */
static int begin_below(struct coordinator *g, struct flatfile *above)
{
	if (coordinate_parent_begin(g) < 0)
		return -1;
	g->run.first_sequence = g->parent->a.first;
	return worker_open_array(&g->parent->w, above, "pub",
		g->parent->w.state.published);
}

/* Everything of a new run is on the disk before its record is. */
static int begin_run(struct coordinator *g, const struct model_file *model,
	json_t *shards, const char *path)
{
	char base[PROTOCOL_HEX] = "";
	const char *names[COORDINATE_ARRAYS + 1];
	struct flatfile above = FLATFILE_INIT;
	struct buf text = BUF_INIT;
	int rc = -1;

	if ((g->parent ? begin_below(g, &above) : coordinate_start(g)) < 0 ||
		sign_run(g, shards) < 0)
		goto out;
	coordinate_arrays(g, names);
	for (int i = 0; names[i]; i++) {
		/* theta and published begin with the model, or with the parent's */
		bool filled = i < 2 || strcmp(names[i], "parent") == 0;
		char file[64];

		snprintf(file, sizeof file, "%s-0.f32", names[i]);
		if (make_array(g, file, filled && !above.x ? model : NULL,
			    filled ? above.x : NULL, i ? NULL : base) < 0)
			goto out;
	}
	if (coordinate_db_open(g) < 0 || coordinate_db_begin_run(g, base) < 0 ||
		(g->parent && coordinate_db_set_parent(g, &g->parent->a, 1) < 0))
		goto out;
	buf_addf(&text, "%s\n", g->run_text);
	rc = io_create(path, text.data, text.len, 0644);
out:
	flatfile_close(&above);
	buf_release(&text);
	return rc;
}

/* --- open ------------------------------------------------------------------------------------ */

/* Without --key and without the default key file the run gets a key of its own. */
static int load_key(struct coordinator *g)
{
	struct buf path = BUF_INIT;
	char *own = coordinate_path(g, "key.json");
	int rc = 0;

	if (!g->o.key)
		rc = key_default_path(&path);
	if (rc == 0 && (g->o.key || access(buf_text(&path), F_OK) == 0)) {
		rc = key_load(&g->key, g->o.key, NULL);
	} else if (access(own, F_OK) == 0) {
		err_clear();
		rc = key_load(&g->key, own, NULL);
	} else {
		err_clear();
		rc = key_generate(&g->key);
		if (rc == 0)
			rc = key_save(&g->key, own, NULL);
		if (rc == 0)
			prog_info(
				"no key file: made '%s', which signs the run and its receipts",
				own);
	}
	free(own);
	buf_release(&path);
	return rc;
}

static int open_data(struct coordinator *g, const struct lm_config *c)
{
	unsigned char print[32];
	char *path = NULL;
	int rc = -1;

	if (lm_shards_open(&g->data, g->o.data) < 0 ||
		(g->o.valid &&
			(lm_shards_open(&g->valid, g->o.valid) < 0 ||
				lm_shards_suit(&g->valid, g->o.valid, g->data.tokenizer,
					g->o.data) < 0)))
		goto out;
	/* members fetch them, and know one form */
	if (!g->data.shards[0].is_ours) {
		err_set(EX_DATAERR,
			"%s: these shards are llm.c's: members of a run need those of rnp-train tokenize",
			g->o.data);
		goto out;
	}
	if (g->data.vocab > c->vocab || (g->o.valid && g->valid.vocab > c->vocab)) {
		err_set(EX_DATAERR, "%s: a larger vocabulary than the model's %u",
			g->data.vocab > c->vocab ? g->o.data : g->o.valid, c->vocab);
		goto out;
	}
	if (g->data.n > PROTOCOL_SHARDS_MAX) {
		err_set(EX_DATAERR, "%s: more than %d shards", g->o.data,
			PROTOCOL_SHARDS_MAX);
		goto out;
	}
	rc = 0;
	if (rundir_has(g->o.model, "tokenizer.json")) {
		struct buf file = BUF_INIT;

		buf_addf(&file, "%s/tokenizer.json", g->o.model);
		path = buf_take(&file);
		rc = lm_token_open(&g->token, path, c->vocab);
		if (rc == 0) {
			lm_token_fingerprint(g->token, print);
			rc = lm_shards_suit(&g->data, g->o.data, print, path);
		}
	}
out:
	free(path);
	return rc;
}

static int open_shuffle(struct coordinator *g)
{
	return shuffle_init(&g->shuffle, g->data.count, g->run.length, g->run.seed) < 0 ?
		err_add("%s", g->o.data) :
		0;
}

/* Who is paid is judged: by the run's rates, or by a registry, whose receipts others pay for. */
static int set_judging(struct coordinator *g)
{
	bool paid = g->run.uusd_per_million_tokens || g->run.credits_per_million_tokens ||
		g->o.registry;

	if (!g->o.given("judge"))
		g->o.judge = paid ? JUDGE_TENTH : 0;
	if (g->o.judge || !paid || g->o.nallow)
		return 0;
	err_set(EX_USAGE, "--judge 0 pays strangers for work that nobody looks at");
	return err_hint("leave --judge out, or name the workers with --allow");
}

/* Sketches of deltas are compared over all rounds, and the seed is nobody's but the key's. */
static void set_sketches(struct coordinator *g)
{
	unsigned char out[crypto_generichash_BYTES_MIN];

	crypto_generichash(out, sizeof out, (const unsigned char *)g->run.name,
		strlen(g->run.name), g->key.secret, KEY_SECRET_BYTES);
	memcpy(&g->intake.sketch_seed, out, sizeof g->intake.sketch_seed);
}

static int open_eval(struct coordinator *g)
{
	if (!g->o.valid && !g->o.judge)
		return 0;
	if (g->o.valid && g->valid.count <= g->run.length)
		return err_set(EX_DATAERR, "%s: %llu tokens are no sequence of %u",
			g->o.valid, (unsigned long long)g->valid.count, g->run.length);
	return judging_loop(&g->eval, &g->d, &g->run);
}

static void begin_round(struct coordinator *g)
{
	const struct training *t = &g->run;
	struct round_policy p = { .quorum = t->quorum,
		.members_max = (uint64_t)g->o.workers_max,
		.steps = t->inner_steps,
		.batch = t->batch,
		.length = t->length,
		.late_count = t->late_count,
		.slack_ms = SLACK_MS,
		.asynchronous = t->outer == UPDATE_DN,
		.grace_ms = g->o.grace_ms,
		.dylu = t->outer == UPDATE_DN,
		.ahead = training_streams(t) };

	round_init(&g->rounds.r, &p, t->first_sequence, coordinate_now(g));
}

/* A run below a parent stays there, and another does not get one. */
static int check_below(struct coordinator *g, const char *path)
{
	int was = coordinate_db_get_parent(g);

	if (was < 0 || (was == 1) == (g->parent != NULL))
		return was < 0 ? -1 : 0;
	return err_set(EX_USAGE, "%s: the run was begun %s --parent", path,
		was ? "with" : "without");
}

static int open_run(struct coordinator *g)
{
	struct model_file *model = NULL;
	struct training now;
	json_t *shards = NULL;
	char *path = coordinate_path(g, "run.json");
	int rc = -1;

	if (model_file_open(&model, g->o.model) < 0 ||
		open_data(g, model_file_config(model)) < 0 || load_key(g) < 0 ||
		(g->o.parent &&
			coordinate_parent_open(g, model_file_config(model)) < 0) ||
		set_run(g, model_file_config(model)) < 0)
		goto out;
	shards = set_data(&g->run, &g->data);
	now = g->run;
	if (access(path, F_OK) != 0) {
		if (begin_run(g, model, shards, path) < 0)
			goto out;
		begin_round(g);
		rc = coordinate_db_load(g);
		goto out;
	}
	if (load_run(g, path) < 0 || check_same(g, &now, path) < 0 ||
		coordinate_db_open(g) < 0)
		goto out;
	begin_round(g);
	rc = coordinate_db_load(g);
	if (rc == 0)
		rc = check_below(g, path);
out:
	json_decref(shards);
	free(path);
	model_file_close(model);
	return rc;
}

/* Checks that the arrays of the last round are there, and that published has the hash that all
 * workers begin with. Damage that is found only when the next round closes costs every worker its
 * turn. */
static int check_arrays(const struct coordinator *g)
{
	const char *names[COORDINATE_ARRAYS + 1];
	unsigned char hash[32];
	char file[64], hex[PROTOCOL_HEX];
	int rc = 0;

	coordinate_arrays(g, names);
	for (int i = 0; rc == 0 && names[i]; i++) {
		struct flatfile f = FLATFILE_INIT;

		snprintf(file, sizeof file, "%s-%llu.f32", names[i],
			(unsigned long long)g->rounds.round - 1);
		rc = flatfile_open(&f, g->dir, file, g->run.parameters);
		if (rc == 0 && strcmp(names[i], "pub") == 0) {
			flatfile_hash(f.x, f.n, hash);
			protocol_hex(hex, hash);
			if (strcmp(hex, g->rounds.params_hash) != 0)
				rc = err_set(EX_DATAERR,
					"%s: is not what the last round ended with",
					f.path);
		}
		flatfile_close(&f);
	}
	return rc;
}

int coordinate_open(struct coordinator *g, const struct coordinator_options *o)
{
	struct buf dir = BUF_INIT;
	pthread_condattr_t attr;

	*g = (struct coordinator){ .o = *o,
		.d = DEV_INIT,
		.cpu = DEV_INIT,
		.intake.check = DEV_INIT,
		.figures.loss_micronats = -1,
		.figures.valid_micronats = -1 };
	pthread_mutex_init(&g->rounds.lock, NULL);
	pthread_mutex_init(&g->intake.check_lock, NULL);
	pthread_mutex_init(&g->intake.pieces_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->rounds.wake, &attr);
	pthread_condattr_destroy(&attr);
	g->nonces = nonces_new(NONCES, false);
	buf_addf(&dir, "%s/coordinate", o->model);
	g->dir = buf_take(&dir);
	if (!rundir_has(o->model, "config.json"))
		return err_set(EX_NOINPUT,
			"'%s' is no model directory: make one with init", o->model);
	if (io_make_dirs(g->dir, 0777) < 0 || rundir_hold(&g->hold, o->model) < 0 ||
		device_open(&g->cpu, "cpu") < 0 || open_run(g) < 0 ||
		check_arrays(g) < 0 || open_shuffle(g) < 0 || set_judging(g) < 0 ||
		device_open(&g->d, o->device) < 0 ||
		device_open(&g->intake.check, "cpu") < 0 || open_eval(g) < 0)
		return -1;
	set_sketches(g);
	coordinate_db_sweep(g);
	/* after a kill the model may be that of the round before */
	return coordinate_export(g);
}

void coordinate_close_all(struct coordinator *g)
{
	coordinate_parent_close(g);
	uploads_forget(g);
	coordinate_db_close(g);
	lm_loop_close(&g->eval);
	dev_close(&g->d);
	dev_close(&g->cpu);
	round_release(&g->rounds.r);
	free(g->activity.heard);
	dev_close(&g->intake.check);
	lm_shards_close(&g->data);
	lm_shards_close(&g->valid);
	lm_token_close(g->token);
	rundir_release(&g->hold);
	key_release(&g->key);
	nonces_free(g->nonces);
	pthread_mutex_destroy(&g->rounds.lock);
	pthread_mutex_destroy(&g->intake.check_lock);
	pthread_mutex_destroy(&g->intake.pieces_lock);
	pthread_cond_destroy(&g->rounds.wake);
	free(g->run_text);
	free(g->dir);
}
