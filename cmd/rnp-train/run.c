/* run.c - rnp-train run: train on this machine, or as one rank of several. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/local/config_file.h"
#include "cmd/rnp-train/local/journal.h"
#include "cmd/rnp-train/local/launch.h"
#include "cmd/rnp-train/options.h"
#include "cmd/rnp-train/local/session.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"

static struct {
	struct session_options s;
	const char *config, *plot;
	bool plan, no_check, mpi;
} options = { .s = { .batch = 8,
		      .warmup = -1,
		      .lr = 4e-4,
		      .lr_min = 0.1,
		      .beta1 = 0.9,
		      .beta2 = 0.95,
		      .decay = 0.1,
		      .clip = 1,
		      .eval_tokens = 65536,
		      .every = 1,
		      .precision = "bf16" } };

static const struct opt opts[] = {
	OPT(TEXT, "model", &options.s.model, "M",
		"the model to begin with: a directory, GGUF or llama2.c file"),
	OPT_SHARDS(&options.s.data),
	OPT_RAW_IDS(&options.s.ids),
	OPT(TEXT, "out", &options.s.out, "DIR", "where model and checkpoint go"),
	OPT(I64, "steps", &options.s.steps, "N",
		"end after this many steps in all; 0: only by --time", .min = 0),
	/* it is compared in nanoseconds */
	OPT_IN(DURATION, "time", &options.s.time_ms, "D", 0, INT64_MAX / 1000000,
		"end after this time, with a checkpoint"),
	OPT(TEXT, "config", &options.config, "F",
		"options from a JSON object; those given here win"),
	OPT_EXAMPLE("options for --config"),
	OPT_SWITCH("no-check", &options.no_check,
		"do not read all of the data first, to find what was damaged"),
	OPT_SWITCH("resume", &options.s.resume,
		"go on with the checkpoint in --out, if there is one"),
	OPT_BATCH(&options.s.batch, "a step"),
	OPT_MICRO_BATCH(&options.s.micro, "the batch"),
	OPT_LENGTH(&options.s.length),
	OPTS_RATE(options.s),
	OPTS_ADAMW(options.s),
	OPT_ORDER_SEED(&options.s.seed, ""),
	OPT_PRECISION(&options.s.precision),
	OPT_IN(I64, "lora", &options.s.lora, "R", 1, LM_LORA_RANK_MAX,
		"train a LoRA adapter of this rank; the model stays as it is"),
	OPT(F64, "lora-alpha", &options.s.lora_alpha, "A",
		"the adapter's scale times its rank (default: twice the rank)"),
	OPT(TEXT, "lora-target", &options.s.lora_target, "REGEX",
		"matrices that are adapted, as q_proj|v_proj (default: all seven)"),
	OPT_SWITCH("rslora", &options.s.rslora,
		"divide by the root of the rank instead of the rank"),
	OPT_SWITCH("recompute", &options.s.recompute,
		"compute activations again on the way back: less memory"),
	OPT_VALID(&options.s.valid, ""),
	OPT_EVAL_EVERY(&options.s.eval_every, "steps"),
	OPT_EVAL_TOKENS(&options.s.eval_tokens),
	OPT(I64, "save-every", &options.s.save_every, "N",
		"checkpoint after every N steps; at the end in any case", .min = 0),
	OPT_STEP_EVERY(&options.s.every, "1"),
	OPT(TEXT, "plot", &options.plot, "F.svg", "draw the loss"),
	OPT_SWITCH("plan", &options.plan,
		"print the memory that the run takes, and do not run"),
	OPT_SWITCH("mpi", &options.mpi,
		"share each batch among the processes that mpirun started"),
	OPT_SWITCH("no-overlap", &options.s.no_overlap,
		"sum gradients only after the backward pass (to compare)"),
	OPT_SWITCH("no-graph", &options.s.no_graph,
		"ask a GPU for every operation of every step (to compare)"),
	OPT_GPUS(&options.s.device),
	{ 0 },
};

/* --- stopping --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;
static _Atomic int64_t stopped_ns; /* 0: not yet */
static int64_t began_ns;           /* the run in this process */

enum stop_flag { STOP_SIGNAL = 1, STOP_TIME = 2 };

static unsigned stop_flags(void)
{
	bool late = options.s.time_ms &&
		clock_mono_ns() - began_ns >= options.s.time_ms * 1000000;

	return (stopped ? STOP_SIGNAL : 0) | (late ? STOP_TIME : 0);
}

static struct launch launch = LAUNCH_INIT;

/* The first signal ends the run after its step, with a checkpoint; a second one ends it at
 * once. A rank may receive the same signal from several places: from the process that started
 * it, which prevents doubles, and from the terminal or any other sender that signals all of
 * them. */
static void on_signal(int number)
{
	int64_t now_ns = clock_mono_ns(), first_ns = 0;

	if (atomic_compare_exchange_strong(&stopped_ns, &first_ns, now_ns))
		stopped = number;
	else if (launch.rank < 0 && now_ns - first_ns >= LAUNCH_AGAIN_NS)
		io_end_by_signal(number);
}

static void watch_signals(void)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
	/* mpirun passes this one on; at SIGTERM it kills the ranks a moment later */
	if (options.mpi)
		sigaction(SIGUSR1, &a, NULL);
	/* the terminal is gone; nohup says that this does not matter */
	if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
		sigaction(SIGHUP, &a, NULL);
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Nobody reads the records any more, which ends the run: what it has learnt is kept all the same.
 * Not of ranks: a checkpoint takes all of them, and the others are in their next step. */
static int save_unread(struct session *s)
{
	struct err why;

	if (s->ranks)
		return -1;
	err_save(&why);
	(void)session_save(s);
	return err_restore(&why);
}

static const char *why_ended(const struct session *s)
{
	unsigned flags = lm_loop_stop_flags(&s->loop);

	if (flags & STOP_SIGNAL)
		return "signal";
	if (s->o.steps && s->loop.step >= (uint64_t)s->o.steps)
		return "steps";
	return flags & STOP_TIME ? "time" : NULL;
}

/* Whether a step has a row: on a terminal the first, the last and one a second, where nobody asked
 * for others; the records of a pipe are all of them. */
static bool is_due(struct journal *j)
{
	int64_t now_ns = clock_mono_ns();

	if (out_for_people() && out_is_terminal() && !j->s->o.given("every") &&
		j->shown_ns && now_ns - j->shown_ns < INT64_C(1000000000) &&
		j->s->loop.step != (uint64_t)j->s->o.steps)
		return false;
	j->shown_ns = now_ns;
	return true;
}

/* The work of rank 0 after a step: loss on the validation text, record. */
static int report(struct journal *j, const struct lm_step *step)
{
	struct session *s = j->s;
	double valid_loss = NAN;

	if (s->rank)
		return 0;
	if (s->o.eval_every && s->loop.step % (uint64_t)s->o.eval_every == 0 &&
		session_eval(s, &valid_loss) < 0)
		return -1;
	journal_note(j, step->loss, valid_loss);
	if ((s->loop.step % (uint64_t)s->o.every == 0 && is_due(j)) || !isnan(valid_loss))
		return journal_step(j, step, valid_loss) < 0 ? save_unread(s) : 0;
	return 0;
}

/* One step and what belongs to it. */
static int advance(struct journal *j)
{
	struct session *s = j->s;
	int64_t from = clock_mono_ns();
	struct lm_step step;

	if (session_step(s, &step) < 0)
		return -1;
	j->step_ns = clock_mono_ns() - from;
	j->train_ns += j->step_ns;
	if (report(j, &step) < 0)
		return -1;
	if (s->o.save_every && s->loop.step % (uint64_t)s->o.save_every == 0)
		return session_save(s);
	return 0;
}

/* A person who has trained a model wants to see what it says. */
static void say_next(const char *out)
{
	struct buf model = BUF_INIT, file = BUF_INIT;

	if (options.s.lora) {
		buf_add_shell(&model, options.s.model);
		buf_add_shell(&file, out);
		prog_info("next: rnp-serve ask --model %s --lora %s 'Once upon a time'",
			model.data, file.data);
		buf_release(&model);
		buf_release(&file);
		return;
	}
	buf_adds(&file, out);
	buf_adds(&file, ".gguf");
	buf_add_shell(&model, out);
	prog_info("next: rnp-serve ask --model %s 'Once upon a time'", model.data);
	buf_adds(&model, " --gguf ");
	buf_add_shell(&model, file.data);
	prog_info("next: rnp-train export --model %s", model.data);
	buf_release(&model);
	buf_release(&file);
}

/* After the last step. */
static int finish(struct journal *j, uint64_t saved, const char *why)
{
	struct session *s = j->s;
	int rc = 0;

	if (s->loop.step != saved)
		rc = session_save(s);
	if (s->rank)
		return rc;
	if (rc == 0 && strcmp(why, "signal") == 0)
		prog_info(
			"stopped at step %llu: model and checkpoint are in %s; go on with the same "
			"options and --resume",
			(unsigned long long)s->loop.step, s->o.out);
	if (rc == 0 && s->o.valid)
		rc = session_eval(s, &s->valid_loss);
	if (options.plot && j->n && journal_draw(j, options.plot) < 0)
		rc = -1;
	if (rc < 0 || journal_end(j, why) < 0)
		return -1;
	if (isatty(STDERR_FILENO))
		say_next(s->o.out);
	return 0;
}

static void on_checked(void *bar, uint64_t bytes)
{
	progress_update(bar, (int64_t)bytes);
}

/* Days of training on a damaged disk cost more than a minute of reading. */
static int check_data(const struct session *s)
{
	const struct lm_shards *sets[] = { &s->data, &s->valid };
	const char *paths[] = { s->o.data, s->o.valid };
	struct progress bar = { 0 };
	int rc = 0;

	for (int i = 0; rc == 0 && i < 2; i++) {
		if (s->rank == 0)
			progress_start(&bar, "checking", "B",
				(int64_t)lm_shards_bytes(sets[i]));
		if (lm_shards_check(sets[i], on_checked, &bar) < 0)
			rc = err_add("%s", paths[i]);
		progress_end(&bar);
	}
	return rc;
}

static void note(struct progress *bar, const struct journal *j)
{
	struct buf rate = BUF_INIT;

	human_number(&rate,
		(double)(j->s->loop.tokens - j->began_tokens) * 1e9 /
			(double)(j->train_ns ? j->train_ns : 1),
		"tokens/s");
	progress_note(bar, "loss %.3f, %s", j->s->last_loss, buf_text(&rate));
	buf_release(&rate);
}

static int train(struct journal *j)
{
	struct session *s = j->s;
	struct progress bar = { 0 };
	const char *why;
	/* a run that begins has nothing on the disk, and may be asked to end before its first
	 * step */
	uint64_t saved = s->loop.step ? s->loop.step : UINT64_MAX;
	int rc = 0;

	watch_signals();
	j->began_ns = began_ns = clock_mono_ns();
	j->began_tokens = s->loop.tokens;
	if (s->rank == 0 && options.plot && s->loop.step)
		journal_load(j);
	if (s->rank == 0 && s->o.steps)
		progress_start(&bar, "training", "steps", s->o.steps);
	else if (s->rank == 0)
		progress_start(&bar, "training", "", s->o.time_ms);
	while (rc == 0 && !(why = why_ended(s))) {
		rc = advance(j);
		note(&bar, j);
		progress_update(&bar,
			s->o.steps ? (int64_t)s->loop.step :
				     (clock_mono_ns() - j->began_ns) / 1000000);
		if (s->o.save_every && s->loop.step % (uint64_t)s->o.save_every == 0)
			saved = s->loop.step;
	}
	progress_end(&bar);
	if (rc == 0)
		return finish(j, saved, why);
	if (options.plot && j->n)
		journal_draw(j, options.plot);
	return -1;
}

static bool given(const char *option)
{
	return opt_given(&command_run, option);
}

/* What suits an adapter: ten times the rate of full training, and no decay (finetuning with less is
 * slower, not better). */
static int check_lora(void)
{
	struct session_options *o = &options.s;
	static const char *const with[] = { "lora-alpha", "lora-target", "rslora" };

	for (size_t i = 0; !o->lora && !o->resume && i < sizeof with / sizeof *with; i++)
		if (given(with[i]))
			return err_set(EX_USAGE, "--%s goes with --lora", with[i]);
	if (given("lora-alpha") && !(o->lora_alpha > 0))
		return err_set(EX_USAGE, "--lora-alpha is above 0");
	if (!o->lora)
		return 0;
	if (!given("lr"))
		o->lr *= 10;
	if (!given("weight-decay"))
		o->decay = 0;
	return 0;
}

static json_t *config_texts; /* of --config */

static int check_given(void)
{
	const struct session_options *o = &options.s;

	if (options.config &&
		config_file_apply(&command_run, options.config, &config_texts) < 0)
		return -1;
	if (!o->model || !o->data || (!o->out && !options.plan))
		return err_set(EX_USAGE, "--%s is missing",
			!o->model        ? "model" :
				!o->data ? "data" :
					   "out");
	if (!o->steps && !o->time_ms && !options.plan)
		return err_set(EX_USAGE, "give --steps, --time or both");
	if (launch_devices(&launch, o->device, options.mpi) < 0)
		return -1;
	if (o->no_overlap && !options.mpi && launch.n < 2)
		return err_set(EX_USAGE, "--no-overlap goes with --mpi or several GPUs");
	if (!(o->lr >= 0 && o->lr_min >= 0 && o->decay >= 0 && o->clip >= 0))
		return err_set(EX_USAGE,
			"--lr, --lr-min, --weight-decay and --clip are not negative");
	if (check_lora() < 0)
		return -1;
	/* better now than after days of work */
	return options.plot && !options.plan ? io_check_place(options.plot) : 0;
}

/* A rank that failed alone leaves others in a sum that never ends, and a farewell would wait for
 * them: mpirun, or the process that started it, ends them when it sees this process go without one,
 * and exits with its code. Records are flushed one by one. */
__attribute__((noreturn)) static void leave_ranks(const struct session *s)
{
	if (launch.rank >= 0)
		launch_leave(&launch);
	err_add("rank %d", s->rank);
	_exit(err_report());
}

static int join_mpi(struct comm *c, void *arg)
{
	(void)arg;
	return comm_mpi_open(c);
}

/* Whom this process shares its batches with, and its device. */
static void choose_ranks(struct session_options *o)
{
	if (options.mpi) {
		o->join = join_mpi;
		o->devices = launch.names;
		o->n_devices = launch.n;
	} else if (launch.rank >= 0) {
		o->join = launch_join;
		o->join_arg = &launch;
		o->device = launch.names[launch.rank];
	} else if (launch.n == 1) {
		o->device = launch.names[0];
	}
}

/* Said once, where somebody with several GPUs expects them to talk to each other. */
static void say_sums(const struct session *s)
{
	if (s->ranks && s->rank == 0 && *ddp_why(s->ranks))
		prog_warn("gradients go through the host's memory: %s",
			ddp_why(s->ranks));
}

/* A GPU that cannot replay its steps is only slower. */
static void say_captured(const struct session *s)
{
	if (s->rank == 0 && !s->d.is_host && *lm_train_why(s->loop.train))
		prog_detail("steps are not captured: %s", lm_train_why(s->loop.train));
}

static int run_rank(void)
{
	struct session s = SESSION_INIT;
	struct journal j = { .s = &s, .launch = &launch };
	int rc;

	choose_ranks(&options.s);
	rc = session_open(&s, &options.s);
	/* the ranks of one machine read the same files */
	if (rc == 0 && !options.no_check && launch.rank <= 0)
		rc = check_data(&s);
	if (rc == 0)
		rc = session_begin(&s);
	if (rc == 0) {
		say_sums(&s);
		rc = train(&j);
		say_captured(&s);
	}
	if (rc < 0 && (s.ranks || launch.rank >= 0))
		leave_ranks(&s);
	journal_release(&j);
	session_release(&s);
	return rc;
}

/* The plan of each device, for its share of the batch. */
static int plan(void)
{
	int n = launch.n ? launch.n : 1, rc = 0;

	for (int i = 0; rc == 0 && i < n; i++) {
		struct session s = SESSION_INIT;

		choose_ranks(&options.s);
		if (!options.mpi && launch.n) {
			options.s.device = launch.names[i];
			options.s.ranks = launch.n;
		}
		rc = session_open(&s, &options.s);
		if (rc == 0 && s.rank == 0)
			rc = journal_plan(&s);
		if (rc < 0 && s.ranks)
			leave_ranks(&s);
		session_release(&s);
		if (options.mpi)
			break; /* each rank has its own */
	}
	return rc;
}

static int run(int nargs, char **args)
{
	int rc = check_given(), code = EX_OK;

	(void)nargs, (void)args;
	options.s.stop_flags = stop_flags;
	options.s.given = given;
	if (rc == 0 && options.plan) {
		rc = plan();
	} else if (rc == 0 && launch.n > 1 && !options.mpi) {
		watch_signals();
		if (launch_ranks(&launch, &code)) {
			io_watch_signals(); /* what this process writes */
			rc = run_rank();
		}
	} else if (rc == 0) {
		rc = run_rank();
	}
	launch_release(&launch);
	json_decref(config_texts);
	return rc < 0 ? err_report() : code;
}

static const char config_example[] = "{\n"
				     "  \"model\": \"model\",\n"
				     "  \"data\": \"tokens\",\n"
				     "  \"out\": \"trained\",\n"
				     "  \"steps\": 1000,\n"
				     "  \"batch\": 8,\n"
				     "  \"length\": 256,\n"
				     "  \"lr\": 0.0004,\n"
				     "  \"warmup\": 100,\n"
				     "  \"resume\": true\n"
				     "}\n";

const struct command command_run = {
	.name = "run",
	.example = config_example,
	.args_max = 0,
	.summary = "Train a model on this machine.",
	.details =
		"Writes one rnp.step record a step and one rnp.run record at the end. Model and checkpoint are in\n"
		"--out, each whole at every instant; --resume goes on with the same options and bits. SIGTERM,\n"
		"SIGINT and SIGHUP end the run after its step, with a checkpoint and exit status 0. Several ranks:\n"
		"mpirun -n 2 rnp-train run --mpi ...; GPUs of this machine: --device cuda:all. Rank 0 alone writes.",
	.columns =
		"step,loss,validation_loss=valid,tokens,tokens_per_s=rate,utilisation_ppm=use,gradient_norm=norm,learning_rate=lr;"
		"rnp.plan:;rnp.run:",
	.opts = opts,
	.run = run,
};
