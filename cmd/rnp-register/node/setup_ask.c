/* setup_ask.c - asks the person at the terminal for missing options of setup; each answer is
 * checked at once, and asked for again. */
#include "cmd/rnp-register/node/setup.h"
#include "cmd/rnp-register/node/wallet.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/node/labels.h"
#include "common/base/amount.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/http/http.h"

typedef int (*ask_check_fn)(const char *answer);

/* Keeps an answer until the end. Returns it. */
static char *keep(struct setup *s, char *takes_answer)
{
	s->kept = xgrow(s->kept, &s->kept_cap, s->nkept + 1, sizeof *s->kept);
	return s->kept[s->nkept++] = takes_answer;
}

static bool ask_possible(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

/* Asks until the answer passes check (NULL: any does). An empty answer means `now`, the present
 * value, which may be NULL; "-" means none, which check gets as "". Returns 0 with the answer in
 * *answer, which the caller frees, NULL for none; or -1 (64): the input ended. */
static int ask(const char *question, const char *now, ask_check_fn check, char **answer)
{
	char *line = NULL, *text;
	size_t cap = 0;
	int rc = 1;

	*answer = NULL;
	while (rc > 0) {
		fprintf(stderr, "%s%s%s%s: ", question, now ? " [" : "", now ? now : "",
			now ? "]" : "");
		if (getline(&line, &cap, stdin) < 0) {
			fputc('\n', stderr);
			rc = err_set(EX_USAGE,
				"the input ended before all was asked: nothing was written");
			break;
		}
		text = trim(line);
		if (!*text && now)
			text = (char *)now;
		if (strcmp(text, "-") == 0)
			*text = '\0';
		if (check && check(text) < 0) {
			prog_error("%s", err_get()->text);
			err_clear();
			continue;
		}
		if (*text)
			*answer = xstrdup(text);
		rc = 0;
	}
	free(line);
	return rc;
}

/* Values go to a file that shells and systemd read. */
static int check_plain(const char *text)
{
	for (const char *at = text; *at; at++)
		if (strchr("\"\\$`'", *at) || (unsigned char)*at < ' ')
			return err_set(EX_USAGE,
				"'%.60s' holds quotes, '$', '\\' or control characters",
				text);
	return 0;
}

static int check_url(const char *text)
{
	struct buf url = BUF_INIT;
	int rc = check_plain(text);

	if (rc == 0)
		rc = http_url(&url, text, "");
	buf_release(&url);
	return rc;
}

/* The one answer without which there is no node. */
static int check_registry(const char *text)
{
	if (*text)
		return check_url(text);
	return err_set(EX_USAGE,
		"a node needs a registry: its operator tells you the URL, such as https://registry.example");
}

static int check_peer(const char *text)
{
	return *text ? check_url(text) : 0;
}

/* The Solana server that is asked about the wallet, or NULL. */
static const char *wallet_rpc;

static int check_wallet(const char *text)
{
	unsigned char public_key[KEY_PUBLIC_BYTES];
	const char *why;

	if (!*text)
		return 0;
	if (address_parse(text, "wallet", public_key) < 0)
		return err_set(EX_USAGE, "wallet: '%.60s' is not a base58 address", text);
	why = node_wallet_why_not(text, wallet_rpc);
	return why ? err_set(EX_USAGE, "wallet %s will not be paid: %s", text, why) : 0;
}

static int check_country(const char *text)
{
	if (!*text ||
		(strlen(text) == 2 && text[0] >= 'A' && text[0] <= 'Z' &&
			text[1] >= 'A' && text[1] <= 'Z'))
		return 0;
	return err_set(EX_USAGE, "a country is two capital letters, such as DE");
}

static int check_host_type(const char *text)
{
	if (!*text || strcmp(text, "data-center") == 0 || strcmp(text, "miner") == 0 ||
		strcmp(text, "partner") == 0)
		return 0;
	return err_set(EX_USAGE, "a host type is data-center, miner or partner");
}

/* Reads one of the three figures: 0 for no answer. Doubted ones are refused: this is when a slip
 * can still be mended. */
static int read_cost(const char *text, const char *what, const struct amount_kind *k,
	int64_t *v)
{
	*v = 0;
	amount_refuse_doubtful();
	if (!text || !*text)
		return 0;
	return amount_read(text, what, k, "", NULL, v) < 0 ? -1 :
							     amount_doubt(*v, what, k);
}

static int check_watts(const char *text)
{
	int64_t v;

	if (read_cost(text, "watts", &amount_watts, &v) < 0)
		return -1;
	return v > 0 || !*text ?
		0 :
		err_set(EX_DATAERR, "watts: '%.20s' is less than 1 W", text);
}

/* With nothing left out by Enter, no node asks less than it costs. */
static int needs_figure(const char *what)
{
	return err_set(EX_USAGE,
		"what %s costs is part of the lowest price: 0 if nothing", what);
}

static int check_kwh(const char *text)
{
	int64_t v;

	if (!*text)
		return needs_figure("a kWh");
	return read_cost(text, "dollars for a kWh", &amount_per_kwh, &v);
}

static int check_hardware(const char *text)
{
	int64_t v;

	if (!*text)
		return needs_figure("the hardware");
	return read_cost(text, "dollars that the hardware cost", &amount_hardware, &v);
}

static int ask_one(struct setup *s, const char *option, const char *question,
	ask_check_fn check, const char **value)
{
	char *answer;

	if (!s->ask || (option && opt_given(s->command, option)))
		return 0;
	if (ask(question, *value, check, &answer) < 0)
		return -1;
	*value = answer ? keep(s, answer) : NULL;
	return 0;
}

static const char *label_of(const struct setup *s, const char *key)
{
	size_t len = strlen(key);

	for (int i = 0; i < s->given->labels.n; i++)
		if (strncmp(s->given->labels.items[i], key, len) == 0 &&
			s->given->labels.items[i][len] == '=')
			return s->given->labels.items[i] + len + 1;
	return NULL;
}

static int ask_label(struct setup *s, const char *key, const char *question,
	ask_check_fn check)
{
	const char *value = label_of(s, key), *was = value;
	struct buf item = BUF_INIT;

	if (!s->ask || opt_given(s->command, "label"))
		return 0;
	if (ask_one(s, NULL, question, check, &value) < 0)
		return -1;
	for (int i = 0; was && i < s->given->labels.n; i++)
		if (s->given->labels.items[i] + strlen(key) + 1 == was)
			s->given->labels.items[i] =
				s->given->labels.items[--s->given->labels.n];
	if (!value)
		return 0;
	buf_addf(&item, "%s=%s", key, value);
	s->given->labels.items = xrealloc(s->given->labels.items,
		(size_t)(s->given->labels.n + 1) * sizeof *s->given->labels.items);
	s->given->labels.items[s->given->labels.n++] = keep(s, buf_take(&item));
	return 0;
}

/* Asks for three figures; none if the first is left out, else all. */
static int ask_costs(struct setup *s)
{
	if (!s->ask || s->given->costs)
		return 0;
	if (access(s->costs_path.data, F_OK) == 0)
		fprintf(stderr, "What the node costs. Enter keeps what %s says.\n",
			s->costs_path.data);
	else
		fputs("What the node costs, for its lowest price. Enter: no price yet.\n",
			stderr);
	if (ask_one(s, NULL, "Watts under load, such as 450", check_watts, &s->watts) < 0)
		return -1;
	if (!s->watts)
		return 0;
	if (ask_one(s, NULL, "US dollars for a kWh, such as 0.15", check_kwh, &s->kwh) <
			0 ||
		ask_one(s, NULL, "US dollars that the hardware cost, such as 1599",
			check_hardware, &s->hardware) < 0)
		return -1;
	return 0;
}

/* What the answers say, which have been checked. */
static void costs_of(const struct setup *s, int64_t *watts, int64_t *kwh_uusd,
	int64_t *hardware_uusd)
{
	read_cost(s->watts, "watts", &amount_watts, watts);
	read_cost(s->kwh, "", &amount_per_kwh, kwh_uusd);
	read_cost(s->hardware, "", &amount_hardware, hardware_uusd);
}

static void write_costs(const struct setup *s, struct buf *text)
{
	int64_t watts, kwh_uusd, hardware_uusd;

	costs_of(s, &watts, &kwh_uusd, &hardware_uusd);
	buf_addf(text,
		"{\n  \"watts_load\": %lld,\n  \"watts_idle\": %lld,\n  \"per_kwh\": \"",
		(long long)watts, (long long)watts / 5);
	amount_text(text, kwh_uusd, &amount_per_kwh);
	buf_adds(text, "\",\n  \"hardware\": \"");
	amount_text(text, hardware_uusd, &amount_hardware);
	buf_adds(text,
		"\",\n  \"depreciation_days\": 1460,\n"
		"  \"network_per_hour\": \"0 USD\",\n  \"fee_ppm\": 0,\n  \"margin_ppm\": 0\n}\n");
}

/* "450 W at 0.15 USD/kWh: $0.068 an hour; hardware 1599 USD over 4 years" */
static void tell_costs(const struct setup *s, struct buf *text)
{
	int64_t watts, kwh_uusd, hardware_uusd;

	costs_of(s, &watts, &kwh_uusd, &hardware_uusd);
	amount_text(text, watts, &amount_watts);
	buf_adds(text, " at ");
	amount_text(text, kwh_uusd, &amount_per_kwh);
	buf_addf(text, ": $%.3f an hour; hardware ",
		(double)watts / 1e3 * (double)kwh_uusd / 1e6);
	amount_text(text, hardware_uusd, &amount_hardware);
	buf_adds(text, " over 4 years");
}

/* The name that this machine has already. */
static const char *default_name(struct setup *s)
{
	char name[256];

	if (!s->ask || gethostname(name, sizeof name) < 0)
		return NULL;
	name[sizeof name - 1] = '\0';
	return check_plain(name) == 0 && *name ? keep(s, xstrdup(name)) : NULL;
}

static int ask_all(struct setup *s)
{
	struct setup_given *g = s->given;

	if (ask_one(s, "registry", "Registry (URL)", check_registry, &g->registry) < 0 ||
		ask_one(s, "wallet", "Wallet that is paid (Solana address)", check_wallet,
			&g->wallet) < 0 ||
		ask_one(s, "name", "Name of this machine, for all to see", check_plain,
			&g->name) < 0 ||
		ask_label(s, "country", "Country, such as DE", check_country) < 0 ||
		ask_label(s, "region", "Region, such as Saxony", check_plain) < 0 ||
		ask_label(s, "host_type", "Host type (data-center, miner, partner)",
			check_host_type) < 0 ||
		ask_one(s, "peer", "Peer to measure the network against (URL)",
			check_peer, &g->peer) < 0 ||
		ask_costs(s) < 0)
		return -1;
	return 0;
}

static void show(const char *label, const char *value)
{
	fprintf(stderr, "  %-10s  %s\n", label, value ? value : "none");
}

/* Shows all answers together. Returns 1: they are to be written, 0: ask again, -1. */
static int confirm(struct setup *s)
{
	const struct setup_given *g = s->given;
	struct buf costs = BUF_INIT;
	char *answer;
	int rc;

	fprintf(stderr, "\nThis will be written below %s:\n", s->dir.data);
	show("registry", g->registry);
	show("wallet", g->wallet);
	show("name", g->name);
	for (int i = 0; i < g->labels.n; i++)
		show(i ? "" : "labels", g->labels.items[i]);
	show("peer", g->peer);
	if (s->watts)
		tell_costs(s, &costs);
	else if (g->costs || access(s->costs_path.data, F_OK) == 0)
		buf_adds(&costs, g->costs ? g->costs : s->costs_path.data);
	show("costs", costs.data);
	show("policy", g->policy);
	buf_release(&costs);
	rc = ask("Write it? Enter: yes. no: ask again", NULL, NULL, &answer);
	if (rc == 0)
		rc = !answer || (*answer != 'n' && *answer != 'N');
	free(answer);
	return rc;
}

static int check_labels(const struct opt_list *l)
{
	json_t *labels = json_object();
	int rc = 0;

	if (l->n > SETUP_LABELS_MAX)
		rc = err_set(EX_USAGE, "more than %d labels", SETUP_LABELS_MAX);
	for (int i = 0; rc == 0 && i < l->n; i++) {
		rc = check_plain(l->items[i]);
		/* node.env has them in one line */
		if (rc == 0 && strchr(l->items[i], ';'))
			rc = err_set(EX_USAGE, "--label: '%.60s' is not NAME=VALUE",
				l->items[i]);
		if (rc == 0)
			rc = label_add(labels, l->items[i]);
	}
	json_decref(labels);
	return rc;
}

int setup_check_texts(const struct setup_given *g)
{
	wallet_rpc = g->rpc;
	if ((g->registry && check_url(g->registry) < 0) ||
		(g->rpc && check_url(g->rpc) < 0) ||
		(g->wallet && check_wallet(g->wallet) < 0) ||
		(g->name && check_plain(g->name) < 0) ||
		(g->peer && check_peer(g->peer) < 0))
		return -1;
	return check_labels(&g->labels);
}

int setup_collect(struct setup *s)
{
	int done = 0;

	/* who only begins or ends to sell has answered before */
	s->ask = ask_possible() &&
		!((s->given->sell || s->given->no_sell) && s->given->registry);
	if (!s->given->name)
		s->given->name = default_name(s);
	if (s->ask)
		fputs("Enter takes what stands in brackets, or leaves a question out. "
		      "\"-\" removes it.\n",
			stderr);
	while (s->ask && !done) {
		if (ask_all(s) < 0)
			return -1;
		done = confirm(s);
		if (done < 0)
			return -1;
	}
	if (s->watts)
		write_costs(s, &s->costs_text);
	if (s->given->registry)
		return 0;
	err_set(EX_USAGE, "option --registry URL is required, or RNP_REGISTRY");
	return err_hint("it is asked for only at a terminal");
}
