/* tokenize.c - text to token shards, by a tokenizer that is given or learned from it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/text/corpus.h"
#include "common/lm/token/shard.h"
#include "common/lm/token/token.h"
#include "common/lm/token/train.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"

static struct {
	const char *tokenizer, *out, *pattern;
	struct corpus_form form;
	int64_t vocab;
	bool ids, whole, special, eos;
} options = { .pattern = "gpt-2" };

/* --- --ids -------------------------------------------------------------------------------- */

/* Prints the ids of a text, which is done with then. */
static int print_ids(struct buf *ids)
{
	struct buf line = BUF_INIT;
	int rc;

	buf_addc(&line, '[');
	for (size_t i = 0; i < ids->len; i += sizeof(uint32_t)) {
		uint32_t id;

		memcpy(&id, ids->data + i, sizeof id);
		if (i)
			buf_addc(&line, ',');
		buf_add_i64(&line, id);
	}
	buf_adds(&line, "]\n");
	buf_reset(ids);
	rc = out_text(line.data, line.len);
	buf_release(&line);
	return rc;
}

static int ids_of_lines(const struct lm_token *t, struct buf *ids, const char *path)
{
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int rc = 0;

	if (!f)
		return err_sys(0, "cannot open '%s'", path);
	while (rc == 0 && (errno = 0, n = getline(&line, &cap, f)) >= 0) {
		if (n && line[n - 1] == '\n')
			n--;
		rc = lm_token_encode(t, ids, line, (size_t)n, options.special);
		if (rc == 0)
			rc = print_ids(ids);
		if (rc == 0)
			rc = out_flush();
	}
	if (rc == 0 && ferror(f))
		rc = err_sys(EX_IOERR, "cannot read '%s'",
			is_stdin ? "standard input" : path);
	free(line);
	if (!is_stdin)
		fclose(f);
	return rc;
}

static int on_ids(void *ctx, const uint32_t *ids, size_t n, bool ends)
{
	struct buf *all = ctx;

	buf_add(all, ids, n * sizeof *ids);
	return ends ? print_ids(all) : 0;
}

static int ids_of_file(const struct lm_token *t, struct buf *ids, const char *path)
{
	if (!options.whole && !options.form.jsonl)
		return ids_of_lines(t, ids, path);
	return corpus_encode(path, &options.form, t, options.special, on_ids, ids, NULL);
}

/* --- learning ----------------------------------------------------------------------------- */

static size_t cut_words(const void *trainer, const char *text, size_t bytes, size_t want)
{
	return lm_trainer_cut(trainer, text, bytes, want);
}

static int count_words(struct lm_trainer *trainer, const char *path)
{
	const struct corpus_batch *b;
	struct err first = { 0 };
	struct corpus *c = NULL;
	int rc = corpus_open(&c, path, &options.form);

	while (rc == 0 && (rc = corpus_next(c, &b, cut_words, trainer)) > 0) {
#pragma omp parallel for schedule(dynamic)
		for (size_t i = 0; i < b->n; i++)
			if (lm_trainer_add(trainer, b->text.data + b->pieces[i].at,
				    b->pieces[i].bytes) < 0) {
#pragma omp critical
				if (!first.code)
					err_save(&first);
			}
		rc = first.code ? err_restore(&first) : 0;
	}
	corpus_close(c);
	return rc;
}

static void on_tokens(void *ctx, uint32_t tokens)
{
	progress_update(ctx, tokens);
}

static int learn(struct lm_token **out, int n, char **files)
{
	struct lm_trainer *trainer = NULL;
	struct progress bar;
	int rc = lm_trainer_new(&trainer, options.pattern);

	for (int i = 0; i < n && rc == 0; i++)
		rc = count_words(trainer, files[i]);
	if (rc == 0) {
		prog_detail("%llu different words",
			(unsigned long long)lm_trainer_words(trainer));
		progress_start(&bar, "learning", "tokens", options.vocab);
		rc = lm_trainer_learn(trainer, (uint32_t)options.vocab, out, on_tokens,
			&bar);
		progress_end(&bar);
	}
	lm_trainer_free(trainer);
	if (rc == 0 && lm_token_count(*out) < options.vocab)
		prog_warn("the text gives a vocabulary of %u, not %lld",
			lm_token_count(*out), (long long)options.vocab);
	return rc;
}

/* --- shards ------------------------------------------------------------------------------- */

/* The directory is complete by itself: the tokenizer lies beside the shards. */
static int add_tokenizer(struct lm_shard_writer *w, const struct lm_token *t)
{
	struct buf text = BUF_INIT;
	int rc = lm_token_write_json(t, &text);

	if (rc == 0)
		rc = lm_shard_beside(w, "tokenizer.json", text.data, text.len);
	buf_reset(&text);
	lm_token_write_config(t, &text);
	if (rc == 0)
		rc = lm_shard_beside(w, "tokenizer_config.json", text.data, text.len);
	buf_release(&text);
	return rc;
}

struct sharding {
	struct lm_shard_writer *to;
	struct progress bar;
	uint32_t end; /* the end-of-text token */
	uint64_t bytes, count;
	int64_t documents;
};

static int shard_ids(void *ctx, const uint32_t *ids, size_t n, bool ends)
{
	struct sharding *s = ctx;
	int rc = lm_shard_add(s->to, ids, n);

	s->count += n;
	s->documents += ends;
	if (rc == 0 && ends && options.eos)
		rc = lm_shard_add(s->to, &s->end, 1);
	progress_update(&s->bar, (int64_t)s->bytes);
	return rc;
}

static int shard_files(struct sharding *s, const struct lm_token *t, int n, char **files)
{
	int rc = 0;

	progress_start(&s->bar, "encoding", "B", 0);
	for (int i = 0; i < n && rc == 0; i++)
		rc = corpus_encode(files[i], &options.form, t, options.special, shard_ids,
			s, &s->bytes);
	progress_end(&s->bar);
	if (rc == 0 && !s->count)
		rc = err_set(EX_DATAERR,
			"the text has no tokens: there is nothing to train on");
	return rc;
}

/* What can be done with the shards: the tokenizer stands beside them. */
static void say_next(void)
{
	struct buf shards = BUF_INIT;

	buf_add_shell(&shards, options.out);
	prog_info("next: rnp-train init --preset nano --tokenizer %s --out model",
		shards.data);
	prog_info("next: rnp-train run --model model --data %s --out trained",
		shards.data);
	buf_release(&shards);
}

static int report(const struct lm_token *t, const struct sharding *s, uint64_t tokens,
	uint32_t shards, int64_t learn_ns, int64_t encode_ns)
{
	json_t *record = json_record("rnp.tokens");
	int rc;

	json_set_text(record, "dir", options.out);
	json_set_i64(record, "vocab", lm_token_count(t));
	json_set_i64(record, "tokens", (int64_t)tokens);
	json_set_i64(record, "bytes", (int64_t)s->bytes);
	json_set_i64(record, "documents", s->documents);
	json_set_i64(record, "shards", shards);
	if (options.vocab)
		json_set_i64(record, "learn_ms", learn_ns / 1000000);
	json_set_i64(record, "encode_ms", encode_ns / 1000000);
	rc = out_record(record);
	json_decref(record);
	if (rc == 0 && isatty(STDERR_FILENO))
		say_next();
	return rc;
}

/* Takes w, also when it fails. */
static int write_shards(struct lm_shard_writer *w, const struct lm_token *t, int n,
	char **files, int64_t learn_ns)
{
	struct sharding s = { .to = w, .end = (uint32_t)lm_token_eos(t) };
	unsigned char print[32];
	uint64_t tokens = 0;
	uint32_t shards = 0;
	int64_t begun_ns = clock_mono_ns();
	int rc = 0;

	lm_token_fingerprint(t, print);
	lm_shard_vocab(w, lm_token_count(t), print);
	if (options.eos && lm_token_eos(t) < 0)
		rc = err_set(EX_DATAERR,
			"this tokenizer has no end-of-text token for --%s",
			options.form.jsonl ? "jsonl" : "eos");
	if (rc == 0)
		rc = shard_files(&s, t, n, files);
	if (rc == 0)
		rc = add_tokenizer(w, t);
	if (rc < 0) {
		lm_shard_abandon(w);
		return -1;
	}
	if (lm_shard_end(w, &tokens, &shards) < 0)
		return -1;
	return report(t, &s, tokens, shards, learn_ns, clock_mono_ns() - begun_ns);
}

/* --- the command --------------------------------------------------------------------------- */

static int check_options(int n, char **files)
{
	int from_stdin = 0;

	for (int i = 0; i < n; i++)
		from_stdin += strcmp(files[i], "-") == 0;
	if (!options.tokenizer == !options.vocab)
		return err_set(EX_USAGE, "either --vocab or --tokenizer is needed");
	if (options.ids && (options.vocab || options.out || options.eos))
		return err_set(EX_USAGE, "--ids goes without --vocab, --out and --eos");
	if (!options.ids && !options.out)
		return err_set(EX_USAGE, "--out is needed, or --ids");
	if (options.whole && options.form.jsonl)
		return err_set(EX_USAGE, "--whole goes without --jsonl");
	if (options.whole && !options.ids)
		return err_set(EX_USAGE, "--whole goes with --ids");
	if (options.vocab && from_stdin)
		return err_set(EX_USAGE,
			"--vocab reads the text twice, and standard input can be read once");
	return 0;
}

static int run(int n, char **args)
{
	static char dash[] = "-";
	char *standard_input[] = { dash }, **files = n ? args : standard_input;
	int64_t begun_ns = clock_mono_ns();
	struct lm_shard_writer *w = NULL;
	struct lm_token *t = NULL;
	struct buf ids = BUF_INIT;
	int rc;

	n = n ? n : 1;
	rc = check_options(n, files);
	options.eos = options.eos || (options.form.jsonl && !options.ids);
	if (rc == 0 && options.out) /* now, not after a vocabulary was learnt */
		rc = lm_shard_begin(&w, options.out);
	if (rc == 0)
		rc = options.vocab ? learn(&t, n, files) :
				     lm_token_open(&t, options.tokenizer, 0);
	for (int i = 0; options.ids && i < n && rc == 0; i++)
		rc = ids_of_file(t, &ids, files[i]);
	if (rc == 0 && !options.ids)
		rc = write_shards(w, t, n, files, clock_mono_ns() - begun_ns);
	else
		lm_shard_abandon(w);
	buf_release(&ids);
	lm_token_close(t);
	return rc < 0 ? err_report() : 0;
}

/* clang-format off */
static const struct opt opts[] = {
	OPT_IN(I64, "vocab", &options.vocab, "N", LM_TRAIN_VOCAB_MIN, 1 << 20, "learn a byte-level BPE tokenizer of N tokens from the files (256: bytes)"),
	OPT(TEXT, "tokenizer", &options.tokenizer, "F", "apply this one: tokenizer.json or its directory, a GGUF file, or llama2.c's tok*.bin"),
	OPT(TEXT, "out", &options.out, "DIR", "where token shards and the tokenizer go"),
	OPT(CHOICE, "pattern", &options.pattern, NULL, "how --vocab cuts text into words (default gpt-2)", .choices = "gpt-2|llama-bpe"),
	OPT_SWITCH("ids", &options.ids, "print one JSON array of ids per line of input instead"),
	OPT_SWITCH("whole", &options.whole, "with --ids: each input is one text"),
	OPT(TEXT, "jsonl", &options.form.jsonl, "FIELD", "the files are JSON Lines: each line's FIELD is a document, with --eos behind it"),
	OPT_SWITCH("bytes", &options.form.any_bytes, "take files that are no UTF-8 text as they are"),
	OPT_SWITCH("special", &options.special, "names of special tokens in the text are those tokens"),
	OPT_SWITCH("eos", &options.eos, "put the end-of-text token after each document"),
	{ 0 },
};
/* clang-format on */

const struct command command_tokenize = {
	.name = "tokenize",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Text to token shards, with a tokenizer that is given or learned.",
	.details =
		"Reads texts, writes shards, tokenizer.json and one rnp.tokens record.\n"
		"Files may be compressed by gzip or zstd.\n"
		"No begin-of-text token is added.",
	.opts = opts,
	.run = run,
};
