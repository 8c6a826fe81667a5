/* tokenize.c - text to token shards, by a tokenizer that is given or learned from it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-train/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/map.h"
#include "common/lm/token/shard.h"
#include "common/lm/token/token.h"
#include "common/lm/token/token_train.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"

static struct {
	const char *tokenizer, *out, *pattern;
	int64_t vocab;
	bool ids, whole, special, eos;
} options = { .pattern = "gpt-2" };

/* --- texts -------------------------------------------------------------------------------- */

struct text {
	const char *data;
	size_t bytes;
	struct lm_map map; /* of a file */
	struct buf read;   /* of what cannot be mapped */
};

static int text_open(struct text *t, const char *path)
{
	struct stat st;

	*t = (struct text){ 0 };
	if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		if (lm_map_open(&t->map, path) < 0)
			return -1;
		t->data = (const char *)t->map.data;
		t->bytes = t->map.bytes;
		if (t->bytes > LM_TOKEN_TEXT_MAX)
			return err_set(EX_DATAERR,
				"'%s' is larger than %llu bytes: give it in parts", path,
				(unsigned long long)LM_TOKEN_TEXT_MAX);
		return 0;
	}
	if (io_read(&t->read, path, LM_TOKEN_TEXT_MAX) < 0)
		return -1;
	t->data = buf_text(&t->read);
	t->bytes = t->read.len;
	return 0;
}

static void text_close(struct text *t)
{
	lm_map_close(&t->map);
	buf_release(&t->read);
}

/* --- --ids -------------------------------------------------------------------------------- */

static int print_ids(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes)
{
	struct buf line = BUF_INIT;
	int rc;

	buf_reset(ids);
	rc = lm_token_encode_long(t, ids, text, bytes, options.special);
	if (rc == 0) {
		buf_addc(&line, '[');
		for (size_t i = 0; i < ids->len; i += sizeof(uint32_t)) {
			uint32_t id;

			memcpy(&id, ids->data + i, sizeof id);
			if (i)
				buf_addc(&line, ',');
			buf_add_i64(&line, id);
		}
		buf_adds(&line, "]\n");
		rc = out_text(line.data, line.len);
	}
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
		rc = print_ids(t, ids, line, (size_t)n);
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

static int ids_of_file(const struct lm_token *t, struct buf *ids, const char *path)
{
	struct text text;
	int rc;

	if (!options.whole)
		return ids_of_lines(t, ids, path);
	rc = text_open(&text, path);
	if (rc == 0)
		rc = print_ids(t, ids, text.data, text.bytes);
	text_close(&text);
	return rc;
}

/* --- learning ----------------------------------------------------------------------------- */

static void on_tokens(void *ctx, uint32_t tokens)
{
	progress_update(ctx, tokens);
}

static int learn(struct lm_token **out, int n, char **files)
{
	struct lm_trainer *trainer = NULL;
	struct progress bar;
	int rc = lm_trainer_new(&trainer, options.pattern);

	for (int i = 0; i < n && rc == 0; i++) {
		struct text text;

		rc = text_open(&text, files[i]);
		if (rc == 0)
			rc = lm_trainer_add(trainer, text.data, text.bytes);
		text_close(&text);
	}
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

static int shard_file(struct lm_shard_writer *w, const struct lm_token *t,
	const char *path, uint64_t *bytes)
{
	struct buf ids = BUF_INIT;
	struct text text;
	uint32_t end = (uint32_t)lm_token_eos(t);
	int rc = text_open(&text, path);

	if (rc == 0)
		rc = lm_token_encode_long(t, &ids, text.data, text.bytes,
			options.special);
	if (rc == 0)
		rc = lm_shard_add(w, (const uint32_t *)(const void *)ids.data,
			ids.len / sizeof(uint32_t));
	if (rc == 0 && options.eos)
		rc = lm_shard_add(w, &end, 1);
	*bytes += text.bytes;
	text_close(&text);
	buf_release(&ids);
	return rc;
}

static int report(const struct lm_token *t, uint64_t count, uint32_t shards,
	uint64_t bytes, int64_t learn_ns, int64_t encode_ns)
{
	json_t *record = json_record("rnp.tokens");
	int rc;

	json_set_text(record, "dir", options.out);
	json_set_i64(record, "vocab", lm_token_count(t));
	json_set_i64(record, "tokens", (int64_t)count);
	json_set_i64(record, "bytes", (int64_t)bytes);
	json_set_i64(record, "shards", shards);
	if (options.vocab)
		json_set_i64(record, "learn_ms", learn_ns / 1000000);
	json_set_i64(record, "encode_ms", encode_ns / 1000000);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* Takes w, also when it fails. */
static int write_shards(struct lm_shard_writer *w, const struct lm_token *t, int n,
	char **files, int64_t learn_ns)
{
	unsigned char print[32];
	uint64_t bytes = 0, count = 0;
	uint32_t shards = 0;
	int64_t begun_ns = clock_mono_ns();
	int rc = 0;

	lm_token_fingerprint(t, print);
	lm_shard_vocab(w, lm_token_count(t), print);
	if (options.eos && lm_token_eos(t) < 0)
		rc = err_set(EX_DATAERR,
			"this tokenizer has no end-of-text token for --eos");
	for (int i = 0; i < n && rc == 0; i++)
		rc = shard_file(w, t, files[i], &bytes);
	if (rc == 0)
		rc = add_tokenizer(w, t);
	if (rc < 0) {
		lm_shard_abandon(w);
		return -1;
	}
	if (lm_shard_end(w, &count, &shards) < 0)
		return -1;
	return report(t, count, shards, bytes, learn_ns, clock_mono_ns() - begun_ns);
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
	{ .name = "vocab", .kind = OPT_I64, .to = &options.vocab, .metavar = "N",
		.min = LM_TRAIN_VOCAB_MIN, .max = 1 << 20,
		.help = "learn a byte-level BPE tokenizer of N tokens from the files (256: bytes)" },
	{ .name = "tokenizer", .kind = OPT_TEXT, .to = &options.tokenizer, .metavar = "F",
		.help = "apply this one: tokenizer.json or its directory, a GGUF file, or llama2.c's tok*.bin" },
	{ .name = "out", .kind = OPT_TEXT, .to = &options.out, .metavar = "DIR",
		.help = "where token shards and the tokenizer go" },
	{ .name = "pattern", .kind = OPT_CHOICE, .to = &options.pattern, .choices = "gpt-2|llama-bpe",
		.help = "how --vocab cuts text into words (default gpt-2)" },
	{ .name = "ids", .kind = OPT_FLAG, .to = &options.ids,
		.help = "print one JSON array of ids per line of input instead" },
	{ .name = "whole", .kind = OPT_FLAG, .to = &options.whole,
		.help = "with --ids: each input is one text" },
	{ .name = "special", .kind = OPT_FLAG, .to = &options.special,
		.help = "names of special tokens in the text are those tokens" },
	{ .name = "eos", .kind = OPT_FLAG, .to = &options.eos,
		.help = "put the end-of-text token after each file" },
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
		"No begin-of-text token is added.",
	.opts = opts,
	.run = run,
};
