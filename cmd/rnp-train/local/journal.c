/* journal.c - the records and the picture of a training run. */
#include "cmd/rnp-train/local/journal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/plot/plot.h"

void journal_release(struct journal *j)
{
	free(j->steps);
	free(j->losses);
	free(j->valid_steps);
	free(j->valid_losses);
}

static void note_at(struct journal *j, double step, double loss, double valid_loss)
{
	if (j->n == j->cap) {
		size_t bytes = (j->cap = j->cap ? 2 * j->cap : 1024) * sizeof(double);

		j->steps = xrealloc(j->steps, bytes);
		j->losses = xrealloc(j->losses, bytes);
		j->valid_steps = xrealloc(j->valid_steps, bytes);
		j->valid_losses = xrealloc(j->valid_losses, bytes);
	}
	j->steps[j->n] = step;
	j->losses[j->n++] = loss;
	if (!isnan(valid_loss)) {
		j->valid_steps[j->valids] = step;
		j->valid_losses[j->valids++] = valid_loss;
	}
}

void journal_note(struct journal *j, double loss, double valid_loss)
{
	note_at(j, (double)j->s->loop.step, loss, valid_loss);
}

/* The curve of a run that is resumed: a line a step beside the checkpoint. */
#define CURVE_FILE      "losses.jsonl"
#define CURVE_BYTES_MAX ((size_t)1 << 30)

static void curve_path(const struct journal *j, struct buf *path)
{
	buf_addf(path, "%s/" CURVE_FILE, j->s->o.out);
}

/* A line that cannot be read is left out: the picture is no reason not to train. */
static void load_line(struct journal *j, const char *line, size_t len)
{
	json_t *o = json_parse_object(line, len, CURVE_FILE), *v;
	double step = json_number_value(json_object_get(o, "step")), valid = NAN;

	err_clear();
	v = json_object_get(o, "valid_loss");
	if (v)
		valid = json_number_value(v);
	/* steps after the checkpoint are made again */
	if (o && step >= 1 && step <= (double)j->s->loop.step)
		note_at(j, step, json_number_value(json_object_get(o, "loss")), valid);
	json_decref(o);
}

void journal_load(struct journal *j)
{
	struct buf path = BUF_INIT, text = BUF_INIT;

	curve_path(j, &path);
	if (access(path.data, R_OK) == 0 &&
		io_read(&text, path.data, CURVE_BYTES_MAX) == 0 && text.len)
		for (char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1)
			load_line(j, at, (size_t)(end - at));
	err_clear();
	buf_release(&path);
	buf_release(&text);
}

static int save_curve(const struct journal *j)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	size_t valid = 0;
	int rc;

	for (size_t i = 0; i < j->n; i++) {
		if (!isfinite(j->losses[i]))
			continue;
		buf_addf(&text, "{\"step\":%.0f,\"loss\":%.9g", j->steps[i],
			j->losses[i]);
		while (valid < j->valids && j->valid_steps[valid] < j->steps[i])
			valid++;
		if (valid < j->valids && j->valid_steps[valid] == j->steps[i] &&
			isfinite(j->valid_losses[valid]))
			buf_addf(&text, ",\"valid_loss\":%.9g", j->valid_losses[valid]);
		buf_adds(&text, "}\n");
	}
	curve_path(j, &path);
	rc = io_replace(path.data, buf_text(&text), text.len, 0644);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* Sets the share of the roof that so many tokens a second are. A share above 1 says that the
 * roof was measured while something was in its way: it is measured again, once a run. */
static int set_utilisation(json_t *r, struct session *s, double tokens_per_s)
{
	/* the ranks' machines are taken for alike */
	double flop = lm_learned_train_flop(lm_train_config(s->loop.train),
			      lm_train_lora(s->loop.train), (uint32_t)s->o.length) *
		tokens_per_s / s->size;
	json_t *unknown;

	if (flop > s->roof.best && !s->roof_again) {
		s->roof_again = true;
		if (session_roof(s, true) < 0)
			return -1;
	}
	if (flop <= s->roof.best) {
		json_set_i64(r, "utilisation_ppm", (int64_t)(1e6 * flop / s->roof.best));
		return 0;
	}
	unknown = json_object();
	json_set_text(unknown, "utilisation_ppm",
		"the steps were faster than the device's products whenever those were measured");
	json_set(r, "unknown", unknown);
	return 0;
}

static double rate_of_last(const struct lm_loop *l)
{
	return lm_schedule_rate(&l->o.schedule, l->step - 1,
		lm_train_steps(l->train) - 1);
}

int journal_step(const struct journal *j, const struct lm_step *step, double valid_loss)
{
	struct session *s = j->s;
	double rate = (double)step->targets * 1e9 / (double)j->step_ns;
	json_t *r = json_record("rnp.step");
	int rc;

	json_set_i64(r, "step", (int64_t)s->loop.step);
	json_set_f64(r, "loss", step->loss);
	if (!isnan(valid_loss))
		json_set_f64(r, "validation_loss", valid_loss);
	json_set_i64(r, "tokens", (int64_t)s->loop.tokens);
	json_set_i64(r, "tokens_per_s", (int64_t)rate);
	rc = set_utilisation(r, s, rate);
	json_set_f64(r, "gradient_norm", step->norm);
	json_set_f64(r, "learning_rate", rate_of_last(&s->loop));
	if (rc == 0)
		rc = out_record(r);
	json_decref(r);
	return rc;
}

static int64_t peak_bytes(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

static void set_ranks(json_t *r, const struct session *s)
{
	struct ddp_times t;

	if (!s->ranks)
		return;
	ddp_times(s->ranks, &t);
	json_set_i64(r, "ranks", s->size);
	json_set_text(r, "summed_by", ddp_backend(s->ranks));
	json_set_i64(r, "sum_ms", t.sum_ns / 1000000);
	json_set_i64(r, "wait_ms", t.wait_ns / 1000000);
}

/* Of all ranks on this machine, where it is one program that started them. */
static void set_device(json_t *r, const struct journal *j)
{
	struct buf names = BUF_INIT;

	for (int i = 0; j->launch->rank >= 0 && i < j->launch->n; i++)
		buf_addf(&names, "%s%s", i ? "," : "", j->launch->names[i]);
	json_set_text(r, "device", names.len ? names.data : j->s->d.name);
	buf_release(&names);
}

static void set_adapter(json_t *r, const struct session *s)
{
	const struct lm_lora *l = &s->train_options.lora;
	json_t *o;

	if (!l->rank)
		return;
	o = json_object();
	json_set_i64(o, "rank", l->rank);
	json_set_f64(o, "alpha", l->alpha);
	json_set_i64(o, "parameters",
		(int64_t)lm_learned_params(model_file_config(s->model_file), l));
	json_set(r, "adapter", o);
}

int journal_end(const struct journal *j, const char *why)
{
	struct session *s = j->s;
	int64_t ns = clock_mono_ns() - j->began_ns;
	double rate = j->train_ns ?
		(double)(s->loop.tokens - j->began_tokens) * 1e9 / (double)j->train_ns :
		0;
	json_t *r = json_record("rnp.run");
	int rc;

	json_set_text(r, "model", s->o.out);
	set_device(r, j);
	json_set_i64(r, "parameters",
		(int64_t)lm_config_params(lm_train_config(s->loop.train)));
	set_adapter(r, s);
	json_set_text(r, "ended", why);
	json_set_i64(r, "steps", (int64_t)s->loop.step);
	json_set_i64(r, "tokens", (int64_t)s->loop.tokens);
	json_set_i64(r, "elapsed_ms", ns / 1000000);
	json_set_i64(r, "training_ms", j->train_ns / 1000000);
	json_set_i64(r, "tokens_per_s", (int64_t)rate);
	if (!isnan(s->first_loss)) {
		json_set_f64(r, "first_loss", s->first_loss);
		json_set_f64(r, "loss", s->last_loss);
	}
	if (!isnan(s->valid_loss))
		json_set_f64(r, "validation_loss", s->valid_loss);
	rc = set_utilisation(r, s, rate);
	json_set_i64(r, "matrix_flops", (int64_t)s->roof.best);
	if (stats_spread_ppm(&s->roof.batches) < 1000000)
		json_set_i64(r, "matrix_spread_ppm", stats_spread_ppm(&s->roof.batches));
	json_set_i64(r, "peak_bytes", peak_bytes());
	if (!s->d.is_host)
		json_set_bool(r, "captured", lm_train_captured(s->loop.train));
	set_ranks(r, s);
	if (rc == 0)
		rc = out_record(r);
	json_decref(r);
	return rc;
}

int journal_plan(struct session *s)
{
	struct lm_train_plan p;
	json_t *r;
	int64_t there = s->d.is_host ? hw_available_read() : 0;
	uint64_t cap;
	int rc;

	if (lm_train_plan(&p, &s->d, &s->train_options) < 0)
		return -1;
	if (!there && s->d.ops->mem_free(&s->d, &cap) == 0)
		there = (int64_t)cap;
	r = json_record("rnp.plan");
	json_set_text(r, "model", s->o.model);
	json_set_text(r, "device", s->d.name);
	if (s->size > 1)
		json_set_i64(r, "ranks", s->size);
	json_set_i64(r, "parameters",
		(int64_t)lm_config_params(model_file_config(s->model_file)));
	set_adapter(r, s);
	if (s->o.lora)
		json_set_i64(r, "base_bytes", (int64_t)p.base);
	json_set_i64(r, "parameters_bytes", (int64_t)p.parameters);
	json_set_i64(r, "copies_bytes", (int64_t)p.copies);
	json_set_i64(r, "gradients_bytes", (int64_t)p.gradients);
	json_set_i64(r, "optimiser_bytes", (int64_t)p.optimiser);
	json_set_i64(r, "activations_bytes", (int64_t)p.activations);
	json_set_i64(r, "work_bytes", (int64_t)p.scratch);
	json_set_i64(r, "total_bytes", (int64_t)p.total);
	if (there) {
		json_set_i64(r, "available_bytes", there);
		json_set_bool(r, "fits", (int64_t)p.total <= there);
	}
	rc = out_record(r);
	json_decref(r);
	return rc;
}

int journal_draw(const struct journal *j, const char *path)
{
	struct plot plot = PLOT_INIT;
	struct plot_line lines[2] = {
		{ .name = "training", .n = j->n, .x = j->steps, .y = j->losses },
		{ .name = "validation",
			.style = PLOT_MARKED,
			.n = j->valids,
			.x = j->valid_steps,
			.y = j->valid_losses }
	};
	struct plot_chart chart = { .title = "loss",
		.x = { .label = "step" },
		.y = { .label = "nats per token" },
		.lines = lines,
		.n = j->valids ? 2 : 1 };
	int rc;

	plot_add_chart(&plot, &chart);
	rc = plot_save(&plot, j->s->o.out, NULL, path);
	plot_release(&plot);
	return rc < 0 ? -1 : save_curve(j);
}
