/* settings.c - reads what people set once for all commands: environment, ~/.config/rnp/config,
 * /etc/rnp/node.env. */
#include "common/cli/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"

#define SYSTEM_FILE    "/etc/rnp/node.env"
#define FILE_BYTES_MAX (64 << 10)

const char *const settings_names[] = { "registry", "key", "passphrase-file", "wallet",
	"gpus", "costs", "ca", "name", "label", "bench", "node", "rpc", NULL };

enum { SETTINGS_MAX = sizeof settings_names / sizeof *settings_names };

static struct {
	char *value, *origin;
} found[SETTINGS_MAX];

/* Values that were replaced: options still point at them. */
static char **before;
static size_t nbefore, before_cap;

static int index_of(const char *name)
{
	for (int i = 0; settings_names[i]; i++)
		if (strcmp(settings_names[i], name) == 0)
			return i;
	return -1;
}

void settings_variable(const char *name, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "RNP_");

	for (; *name && n + 1 < size; name++)
		out[n++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
	out[n] = '\0';
}

static char *trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return text;
}

/* Turns "RNP_KEY_FILE" into the name of the option, in place; leaves other names unchanged. */
static void plain_name(char *name)
{
	if (strncmp(name, "RNP_", 4))
		return;
	memmove(name, name + 4, strlen(name + 4) + 1);
	for (; *name; name++)
		*name = *name == '_' ? '-' : (char)tolower((unsigned char)*name);
}

static char *unquote(char *value)
{
	size_t n = strlen(value);

	if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
		value[n - 1] = '\0';
		value++;
	}
	return value;
}

/* strict: a file only for us. /etc/rnp/node.env may hold other variables for units; there only a
 * name of ours that is nearly that of a setting is an error. */
static int no_such_name(const char *path, int line, const char *name, bool strict)
{
	struct suggest near = { .wanted = name };
	char words[100];

	for (int i = 0; settings_names[i]; i++)
		suggest_offer(&near, settings_names[i], strlen(settings_names[i]));
	if (!strict && !near.best[0])
		return 0;
	return err_set(EX_DATAERR, "%s:%d: there is no setting '%.40s'%s", path, line,
		name, suggest_text(&near, words, sizeof words));
}

static int read_line(char *text, const char *path, int line, bool strict)
{
	char *name = trim(text), *value = strchr(name, '='), origin[300];
	bool ours;
	int i;

	if (!*name || *name == '#')
		return 0;
	if (!value)
		return err_set(EX_DATAERR, "%s:%d: not of the form name = value", path,
			line);
	*value++ = '\0';
	name = trim(name);
	ours = strncmp(name, "RNP_", 4) == 0;
	plain_name(name);
	i = index_of(name);
	if (i < 0)
		return strict || ours ? no_such_name(path, line, name, strict) : 0;
	if (found[i].value)
		return 0;
	snprintf(origin, sizeof origin, "%s:%d", path, line);
	found[i].value = xstrdup(unquote(trim(value)));
	found[i].origin = xstrdup(origin);
	return 0;
}

static int read_file(const char *path, bool strict)
{
	struct buf text = BUF_INIT;
	int rc = 0, line = 0;

	if (access(path, R_OK) < 0)
		return 0;
	if (io_read(&text, path, FILE_BYTES_MAX) < 0)
		return -1;
	for (char *at = text.len ? text.data : NULL; at && rc == 0;) {
		char *end = strchr(at, '\n');

		if (end)
			*end = '\0';
		rc = read_line(at, path, ++line, strict);
		at = end ? end + 1 : NULL;
	}
	buf_release(&text);
	return rc;
}

/* Forgets the values, which stay where they are. */
static void retire(void)
{
	for (int i = 0; i < SETTINGS_MAX; i++) {
		if (found[i].value) {
			before = xgrow(before, &before_cap, nbefore + 1, sizeof *before);
			before[nbefore++] = found[i].value;
		}
		free(found[i].origin);
		found[i].value = found[i].origin = NULL;
	}
}

int settings_load(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	const char *system = getenv("RNP_NODE_ENV");
	struct buf path = BUF_INIT;
	int rc = 0;

	retire();
	for (int i = 0; settings_names[i]; i++) {
		char name[64], origin[80];

		settings_variable(settings_names[i], name, sizeof name);
		if (!getenv(name) || !*getenv(name))
			continue;
		snprintf(origin, sizeof origin, "$%s", name);
		found[i].value = xstrdup(getenv(name));
		found[i].origin = xstrdup(origin);
	}
	if (config && *config)
		buf_addf(&path, "%s/rnp/config", config);
	else if (home && *home)
		buf_addf(&path, "%s/.config/rnp/config", home);
	if (path.len)
		rc = read_file(path.data, true);
	if (rc == 0)
		rc = read_file(system && *system ? system : SYSTEM_FILE, false);
	buf_release(&path);
	return rc;
}

const char *settings_find(const char *name)
{
	int i = index_of(name);

	return i < 0 ? NULL : found[i].value;
}

const char *settings_origin(const char *name)
{
	int i = index_of(name);

	return i < 0 || !found[i].origin ? "" : found[i].origin;
}

void settings_release(void)
{
	retire();
	while (nbefore)
		free(before[--nbefore]);
	free(before);
	before = NULL;
	before_cap = 0;
}
