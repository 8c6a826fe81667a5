/* sell.c - files, price and services of a node that sells. */
#include "cmd/rnp-register/agent/sell.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/ready.h"
#include "cmd/rnp-register/node/tool.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/money.h"
#include "common/cli/prog.h"
#include "common/hw/gpus.h"
#include "common/json/json.h"

#define OURS "# Made by rnp-register setup --sell.\n"

static void sell_path(const struct setup *s, struct buf *out, const char *path)
{
	buf_addf(out, "%s%s", s->given->root, path);
}

/* Writes a file unless it is there: what a person has written stays. */
static int write_once(struct setup *s, const char *name, const struct buf *text,
	const char *what)
{
	struct buf path = BUF_INIT;
	int rc = 0;

	buf_addf(&path, "%s/%s", s->dir.data, name);
	if (access(path.data, F_OK) < 0) {
		rc = io_replace(path.data, buf_text(text), text->len, 0644);
		if (rc == 0)
			setup_say(s, path.data, what);
	}
	buf_release(&path);
	return rc;
}

/* A price of its own leaves none that follows the markets. */
static int remove_price_env(struct setup *s)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = 0;

	buf_addf(&path, "%s/price.env", s->dir.data);
	if (access(path.data, F_OK) == 0 &&
		(rc = io_read(&text, path.data, SETUP_FILE_BYTES_MAX)) == 0 &&
		strncmp(buf_text(&text), OURS, strlen(OURS)) == 0)
		rc = unlink(path.data) < 0 ? err_sys(0, "cannot remove '%s'", path.data) :
					     0;
	buf_release(&path);
	buf_release(&text);
	return rc;
}

static bool follows_markets(const struct setup *s)
{
	return !s->given->price_uusd && s->priced;
}

int sell_files(struct setup *s)
{
	struct buf work = BUF_INIT, price = BUF_INIT;
	int rc;

	buf_adds(&work,
		OURS
		"# Further options of rnp-register work, such as --memory 200GiB --disk 1TB\n"
		"# --resolver 9.9.9.9. After a change: systemctl restart rnp-work\n"
		"RNP_WORK_OPTIONS=\"\"\n");
	buf_addf(&price,
		OURS
		"# Where rnp-price.service lists the price that it computes.\n"
		"RNP_PUBLISH=\"--market rnp --url %s --key-file /run/credentials/rnp-price.service/key",
		s->given->registry);
	if (s->given->ca_file)
		buf_addf(&price, " --ca %s", s->given->ca_file);
	buf_adds(&price, "\"\n");
	rc = write_once(s, "work.env", &work, "what is for sale");
	if (rc == 0 && s->given->price_uusd)
		rc = remove_price_env(s);
	if (rc == 0 && follows_markets(s))
		rc = write_once(s, "price.env", &price, "where its price is listed");
	buf_release(&work);
	buf_release(&price);
	return rc;
}

/* --- the price ---------------------------------------------------------------------------- */

/* An hour that costs so much, of a node that has no rivals: its quote asks that, and a customer
 * pays the network's fee on it. */
static int quote(struct setup *s, const char *costs_path, struct buf *out)
{
	const char *const args[] = { "rnp-price", "quote", "--quiet", "--node",
		s->node_path.data, "--costs", costs_path, "--floor-if-empty", "/dev/null",
		NULL };
	struct buf costs = BUF_INIT;
	int64_t uusd = s->given->price_uusd;
	int rc;

	buf_addf(&costs,
		"{\"watts_load\": 0, \"watts_idle\": 0, \"per_kwh\": \"0 USD\", \"hardware\": \"0 USD\",\n"
		" \"depreciation_days\": 1460, \"network_per_hour\": \"%lld.%06lld USD\",\n"
		" \"fee_ppm\": 0, \"margin_ppm\": 0}\n",
		(long long)(uusd / MONEY_PPM), (long long)(uusd % MONEY_PPM));
	rc = io_replace(costs_path, costs.data, costs.len, 0600);
	if (rc == 0)
		rc = tool_run(args, NULL, out);
	unlink(costs_path);
	buf_release(&costs);
	return rc > 0 ? err_set(rc, "rnp-price quote ended with %d", rc) : rc;
}

int sell_price(struct setup *s)
{
	const char *const sign[] = { "rnp-register", "sign", "--key", s->key_path.data,
		NULL };
	const char *const submit[] = { "rnp-register", "submit", "--registry",
		s->given->registry, s->given->ca_file ? "--ca" : NULL, s->given->ca_file,
		NULL };
	struct buf costs = BUF_INIT, plain = BUF_INIT, signed_one = BUF_INIT,
		   out = BUF_INIT;
	int rc;

	if (!s->given->price_uusd)
		return 0;
	buf_addf(&costs, "%s/.price.json", s->dir.data);
	rc = quote(s, costs.data, &plain);
	if (rc == 0)
		rc = tool_run(sign, &plain, &signed_one);
	if (rc == 0)
		rc = tool_run(submit, &signed_one, &out);
	if (rc > 0)
		rc = err_set(rc, "the registry did not take the price");
	if (rc == 0)
		json_set_i64(s->record, "price_uusd", s->given->price_uusd);
	buf_release(&costs);
	buf_release(&plain);
	buf_release(&signed_one);
	buf_release(&out);
	return rc;
}

/* --- what lacks, and the services --------------------------------------------------------- */

static bool has_resolvers(const struct setup *s)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	bool has;

	buf_addf(&path, "%s/work.env", s->dir.data);
	has = io_read(&text, path.data, SETUP_FILE_BYTES_MAX) == 0 &&
		strstr(buf_text(&text), "RNP_WORK_OPTIONS=\"") &&
		strstr(strstr(buf_text(&text), "RNP_WORK_OPTIONS=\""), "--resolver");
	err_clear();
	buf_release(&path);
	buf_release(&text);
	return has;
}

/* What this machine lacks; what another one does, whose image this is, nobody knows. */
static void look(struct setup *s, json_t *lacks)
{
	static struct nvml_gpu gpus[HW_GPUS_MAX];
	const char *names[HW_GPUS_MAX];
	struct ready_machine m = { .dir = SELL_DIR,
		.run = SELL_RUN,
		.cdi = "nvidia.com/gpu",
		.gpus = names };

	if (*s->given->root) {
		setup_advise(s,
			"install what it needs, in the image: apt-get install --no-install-recommends podman runc conmon nftables e2fsprogs openssh-server openssh-client");
		setup_advise(s,
			"make the user of sessions, in the image: useradd --system --home-dir / --shell /bin/sh " READY_USER);
		return;
	}
	if (geteuid() != 0) {
		json_push_text(lacks,
			"root: containers of strangers are run by root alone");
		setup_advise(s, "begin as root: sudo rnp-register setup --sell");
		return;
	}
	if (ready_make_user())
		prog_info("%s: a user for SSH into leases", READY_USER);
	m.ngpus = ready_gpus(names, gpus);
	m.resolvers = has_resolvers(s);
	ready_look(&m, lacks, s->next);
}

static void look_at_price(struct setup *s, json_t *lacks)
{
	if (s->given->price_uusd || s->priced || s->quoted)
		return;
	json_push_text(lacks, "price: neither --price nor --costs was given");
	setup_advise(s,
		"set what an hour of it is to bring, in dollars, such as: rnp-register setup%s --sell --price 0.40",
		buf_text(&s->again));
}

static int systemctl(const char *const words[])
{
	const char *args[8] = { "systemctl", "--quiet" };
	struct buf out = BUF_INIT;
	int n = 2, rc;

	for (int i = 0; words[i] && n < 7; i++)
		args[n++] = words[i];
	rc = tool_run(args, NULL, &out);
	buf_release(&out);
	return rc > 0 ? err_set(rc, "systemctl %s ended with %d", words[0], rc) : rc;
}

static int start(const struct setup *s)
{
	const char *price = follows_markets(s) ? "rnp-price.timer" : NULL;
	int rc = systemctl((const char *[]){ "enable", "rnp-work.service", price, NULL });

	if (rc == 0)
		rc = systemctl(
			(const char *[]){ "restart", "rnp-work.service", price, NULL });
	/* one that had followed the markets has a price of its own now */
	if (rc == 0 && s->given->price_uusd)
		rc = systemctl(
			(const char *[]){ "disable", "--now", "rnp-price.timer", NULL });
	return rc;
}

/* What a person does where setup starts nothing. */
static void advise_start(struct setup *s)
{
	if (*s->given->root)
		setup_advise(s,
			"begin to sell on that machine: systemctl enable --now rnp-work.service");
	else if (access("/run/systemd/system", F_OK) == 0)
		setup_advise(s, "begin to sell: systemctl enable --now rnp-work.service");
	else
		setup_advise(s,
			"begin to sell: rnp-register work --key /etc/rnp/key.json --state-to " SELL_RUN
			"/state");
}

int sell_begin(struct setup *s, bool started)
{
	json_t *lacks = json_array();
	struct buf closed = BUF_INIT;
	bool ready;
	int rc = 0;

	look(s, lacks);
	look_at_price(s, lacks);
	ready = json_array_size(lacks) == 0;
	sell_path(s, &closed, SELL_DIR "/" SELL_CLOSED);
	if (unlink(closed.data) < 0 && errno != ENOENT)
		rc = err_sys(0, "cannot remove '%s'", closed.data);
	if (rc == 0 && started && ready)
		rc = start(s);
	json_set_text(s->record, "sells",
		!ready          ? "lacks" :
			started ? "started" :
				  "written");
	if (!ready) {
		json_set(s->record, "lacks", json_incref(lacks));
		setup_advise(s, "then run it again: rnp-register setup%s --sell",
			buf_text(&s->again));
	} else if (!started) {
		advise_start(s);
	} else {
		setup_advise(s,
			"see it sell: rnp-register status; journalctl -fu rnp-work");
	}
	json_decref(lacks);
	buf_release(&closed);
	return rc < 0 ? -1 : ready ? EX_OK : EXIT_NO;
}

/* Whether something is leased here, as the agent says. */
static bool is_busy(const struct setup *s)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	bool busy;

	sell_path(s, &path, SELL_RUN "/state");
	busy = io_read(&text, path.data, 64) == 0 &&
		strncmp(buf_text(&text), "busy", 4) == 0;
	err_clear();
	buf_release(&path);
	buf_release(&text);
	return busy;
}

int sell_end(struct setup *s)
{
	struct buf dir = BUF_INIT, path = BUF_INIT;
	int rc;

	sell_path(s, &dir, SELL_DIR);
	sell_path(s, &path, SELL_DIR "/" SELL_CLOSED);
	rc = io_make_dirs(dir.data, 0711);
	if (rc == 0)
		rc = io_replace(path.data, "", 0, 0644);
	/* the service ends by itself, with its last lease */
	if (rc == 0 && !*s->given->root && !s->given->no_start &&
		access("/run/systemd/system", F_OK) == 0 &&
		systemctl((const char *[]){ "disable", "rnp-work.service",
			"rnp-price.timer", NULL }) < 0)
		err_clear(); /* it never sold */
	if (rc == 0) {
		json_set_text(s->record, "sells", "ends");
		if (is_busy(s))
			prog_info(
				"nothing new is taken on; what customers have booked runs to its end, and rnp-work.service ends with it");
		else
			prog_info("nothing is taken on any more");
	}
	buf_release(&dir);
	buf_release(&path);
	return rc;
}
