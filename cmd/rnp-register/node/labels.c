/* labels.c - reads labels of the form NAME=VALUE. */
#include "cmd/rnp-register/node/labels.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

/* A mistyped name would be a label that nobody looks for. */
static int check_label_name(const char *name)
{
	static const char *const names[] = { "country", "region", "host_type",
		"compliance", "peak_hours", NULL };
	struct suggest near = { .wanted = name };
	char words[100];

	if (strncmp(name, "x_", 2) == 0)
		return 0;
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], name) == 0)
			return 0;
		suggest_offer(&near, names[i], strlen(names[i]));
	}
	err_set(EX_USAGE, "--label: there is no '%.40s'%s", name,
		suggest_text(&near, words, sizeof words));
	return err_hint(
		"labels: country, region, host_type, compliance, peak_hours; your own begin with x_");
}

int label_add(json_t *labels, const char *text)
{
	const char *equals = strchr(text, '=');
	json_t *list;
	char key[64];

	if (!equals || equals == text || !equals[1] ||
		(size_t)(equals - text) >= sizeof key)
		return err_set(EX_USAGE, "--label: '%.60s' is not NAME=VALUE", text);
	memcpy(key, text, (size_t)(equals - text));
	key[equals - text] = '\0';
	if (check_label_name(key) < 0)
		return -1;
	if (strcmp(key, "compliance") != 0) {
		json_set_text(labels, key, equals + 1);
		return 0;
	}
	list = json_object_get(labels, key);
	if (!list) {
		list = json_array();
		json_set(labels, key, list);
	}
	for (const char *at = equals + 1;; at++) {
		size_t len = strcspn(at, ",");

		json_push(list, json_stringn(at, len));
		at += len;
		if (!*at)
			return 0;
	}
}
