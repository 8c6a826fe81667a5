/* logs.c - rnp-register logs: what the ranks of a cluster printed. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/follow.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/key.h"
#include "common/registry/client.h"

static const char *registry, *ca_file, *key_path, *passphrase_file;
static bool follow_on;
static int64_t rank;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_CA(&ca_file),
	OPT_SWITCH("follow", &follow_on,
		"what comes later, too, until the cluster is over", .letter = 'f'),
	OPT_IN(I64, "rank", &rank, "N", 0, FRAMES_RANKS_MAX - 1,
		"of this rank alone (default all, each line with its rank before it)"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	{ 0 },
};

/* Writes lines, with "[RANK] " before each where they are of several ranks. */
static int write_lines(void *ctx, int of, const char *text, size_t len)
{
	const struct follow *f = ctx;
	struct buf out = BUF_INIT;
	int rc;

	while (len && f->rank < 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end + 1 - text) : len;

		buf_addf(&out, "[%d] ", of);
		buf_add(&out, text, n);
		text += n;
		len -= n;
	}
	buf_add(&out, text, len);
	rc = out_text(buf_text(&out), out.len);
	buf_release(&out);
	return rc < 0 ? -1 : out_flush();
}

static void say_dropped(void *ctx, int of, int64_t bytes)
{
	(void)ctx;
	prog_info(
		"rank %d: %lld bytes are not kept: a log has its first MiB and the last 15",
		of, (long long)bytes);
}

static int run(int n, char **args)
{
	struct http http = HTTP_INIT;
	struct key key = KEY_INIT;
	struct follow f = { .base = registry,
		.ca = ca_file,
		.key = &key,
		.cluster = args[0],
		.rank = opt_given(&command_logs, "rank") ? (int)rank : -1,
		.follow = follow_on,
		.lines = write_lines,
		.dropped = say_dropped };
	int rc = -1;

	(void)n;
	f.ctx = &f;
	if (key_load(&key, key_path, passphrase_file) == 0)
		rc = follow_run(&f, &http);
	follow_release(&f);
	http_release(&http);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_logs = {
	.name = "logs",
	.summary = "What the nodes of a cluster print, or printed.",
	.details =
		"Writes lines, in the order in which they came, with the rank before each. Control "
		"characters of\nthe job are made harmless: its output cannot take the terminal over. "
		"Ctrl-C ends the reading,\nnot the job.",
	.arguments = "cluster",
	.args_min = 1,
	.args_max = 1,
	.group = "customer",
	.opts = opts,
	.run = run,
};
