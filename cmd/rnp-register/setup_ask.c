/* setup_ask.c - asks the person at the terminal for missing options of setup; each answer is
 * checked at once, and asked for again. */
#include "cmd/rnp-register/setup.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/net/http.h"

typedef int (*ask_check_fn)(const char *answer);

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
 * value, which may be NULL; "-" means none. Returns 0 with the answer in *answer, which the
 * caller frees, NULL for none; or -1 (64): the input ended. */
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
		if (!*text || strcmp(text, "-") == 0) {
			rc = 0;
		} else if (check && check(text) < 0) {
			prog_error("%s", err_get()->text);
			err_clear();
		} else {
			*answer = xstrdup(text);
			rc = 0;
		}
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

static int check_registry(const char *text)
{
	struct buf url = BUF_INIT;
	int rc = check_plain(text);

	if (rc == 0)
		rc = http_url(&url, text, "");
	buf_release(&url);
	return rc;
}

static int check_wallet(const char *text)
{
	unsigned char public_key[KEY_PUBLIC_BYTES];

	if (address_parse(text, "wallet", public_key) < 0)
		return err_set(EX_USAGE, "wallet: '%.60s' is not a base58 address", text);
	return 0;
}

static int check_country(const char *text)
{
	if (strlen(text) == 2 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'A' &&
		text[1] <= 'Z')
		return 0;
	return err_set(EX_USAGE, "a country is two capital letters, such as DE");
}

static int check_host_type(const char *text)
{
	if (strcmp(text, "data-center") == 0 || strcmp(text, "miner") == 0 ||
		strcmp(text, "partner") == 0)
		return 0;
	return err_set(EX_USAGE, "a host type is data-center, miner or partner");
}

static int check_watts(const char *text)
{
	int64_t v;

	return num_i64(text, "watts", 1, 1000000, &v);
}

static int check_usd(const char *text)
{
	int64_t v;

	return num_decimal(text, "dollars", 6, 0, &v);
}

static int ask_one(struct setup *s, const char *option, const char *question,
	ask_check_fn check, const char **value)
{
	char *answer;

	if (!s->ask || (option && opt_given(&command_setup, option)))
		return 0;
	if (ask(question, *value, check, &answer) < 0)
		return -1;
	*value = s->kept[s->nkept++] = answer;
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

	if (!s->ask || opt_given(&command_setup, "label"))
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
	s->given->labels.items[s->given->labels.n++] = s->kept[s->nkept++] = buf_take(
		&item);
	return 0;
}

/* Makes a file of costs from three answers; nothing if the first is empty. */
static int ask_costs(struct setup *s, struct buf *text)
{
	const char *watts = NULL, *kwh = NULL, *hardware = NULL;

	if (!s->ask || s->given->costs)
		return 0;
	fputs("What the node costs, for its lowest price; empty: no price yet.\n",
		stderr);
	if (ask_one(s, NULL, "Watts under load", check_watts, &watts) < 0)
		return -1;
	if (!watts)
		return 0;
	if (ask_one(s, NULL, "US dollars a kWh, such as 0.15", check_usd, &kwh) < 0 ||
		ask_one(s, NULL, "US dollars that the hardware cost (over 4 years)",
			check_usd, &hardware) < 0)
		return -1;
	buf_addf(text,
		"{\n  \"watts_load\": %s,\n  \"watts_idle\": %lld,\n  \"per_kwh\": \"%s USD\",\n"
		"  \"hardware\": \"%s USD\",\n  \"depreciation_days\": 1460,\n"
		"  \"network_per_hour\": \"0 USD\",\n  \"fee_ppm\": 0,\n  \"margin_ppm\": 0\n}\n",
		watts, atoll(watts) / 5, kwh ? kwh : "0", hardware ? hardware : "0");
	return 0;
}

int setup_collect(struct setup *s, struct buf *costs_text)
{
	s->ask = ask_possible();
	if (ask_one(s, "registry", "Registry (URL)", check_registry,
		    &s->given->registry) < 0 ||
		ask_one(s, "wallet", "Wallet that is paid (Solana address)", check_wallet,
			&s->given->wallet) < 0 ||
		ask_one(s, "name", "Name of this machine, which all can read",
			check_plain, &s->given->name) < 0 ||
		ask_label(s, "country", "Country (two letters)", check_country) < 0 ||
		ask_label(s, "region", "Region", check_plain) < 0 ||
		ask_label(s, "host_type", "Host type (data-center, miner, partner)",
			check_host_type) < 0 ||
		ask_one(s, "peer", "Peer to measure the network against (URL)",
			check_registry, &s->given->peer) < 0 ||
		ask_costs(s, costs_text) < 0)
		return -1;
	if (!s->given->registry)
		return err_set(EX_USAGE,
			"option --registry URL is required where there is no terminal to ask at");
	if (check_registry(s->given->registry) < 0 ||
		(s->given->wallet && check_wallet(s->given->wallet) < 0) ||
		(s->given->name && check_plain(s->given->name) < 0) ||
		(s->given->peer && check_registry(s->given->peer) < 0))
		return -1;
	if (s->given->labels.n > SETUP_LABELS_MAX)
		return err_set(EX_USAGE, "more than %d labels", SETUP_LABELS_MAX);
	for (int i = 0; i < s->given->labels.n; i++) {
		if (check_plain(s->given->labels.items[i]) < 0)
			return -1;
		if (strchr(s->given->labels.items[i], ';') ||
			!strchr(s->given->labels.items[i], '='))
			return err_set(EX_USAGE, "--label: '%.60s' is not NAME=VALUE",
				s->given->labels.items[i]);
	}
	return 0;
}
