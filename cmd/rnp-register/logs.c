/* logs.c - rnp-register logs: what the ranks of a cluster printed. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/customer.h"
#include "cmd/rnp-register/customer/follow.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/key.h"
#include "common/registry/client.h"

static const char *registry, *ca_file, *key_path, *passphrase_file;
static bool follow_on, printed;
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

	printed = true;
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

/* "rank 0: pulling since 2026-11-29T03:00:00Z, until 05:00:00Z at most: 2 of 7 layers". */
static void say_rank(const json_t *node)
{
	const char *state = json_string_value(json_object_get(node, "state"));
	const char *since = json_string_value(json_object_get(node, "since"));
	const char *until = json_string_value(json_object_get(node, "deadline"));
	const char *cause = json_string_value(json_object_get(node, "cause"));

	prog_info("rank %lld: %s%s%s%s%s%s%s%s",
		(long long)json_integer_value(json_object_get(node, "rank")),
		state ? state : "", since ? " since " : "", since ? since : "",
		until ? ", until " : "", until ? until : "", until ? " at most" : "",
		cause ? ": " : "", cause ? cause : "");
}

/* Says where its ranks are, to whoever waits for what they print. A cluster that cannot be asked
 * for says nothing. */
static void say_states(const struct key *key, const char *cluster)
{
	struct customer c = { .http = HTTP_INIT,
		.registry = registry,
		.ca = ca_file,
		.key = key };
	struct buf path = BUF_INIT;
	json_t *reply = NULL, *node;
	size_t i;

	buf_addf(&path, "/v1/clusters/%s", cluster);
	if (customer_is_cluster(cluster))
		reply = customer_get(&c, path.data, 0);
	json_array_foreach(json_object_get(reply, "nodes"), i, node) {
		json_t *its = json_object_get(node, "rank");

		if (!opt_given(&command_logs, "rank") || json_integer_value(its) == rank)
			say_rank(node);
	}
	err_clear();
	json_decref(reply);
	buf_release(&path);
	customer_release(&c);
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
	if (key_load(&key, key_path, passphrase_file) == 0) {
		if (follow_on)
			say_states(&key, args[0]);
		rc = follow_run(&f, &http);
	}
	if (rc == 0 && !printed) {
		prog_info("nothing was printed%s", follow_on ? "" : " so far");
		if (!follow_on)
			say_states(&key, args[0]);
	}
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
