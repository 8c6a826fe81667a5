/* keys.c - the SSH keys of a booking. */
#include "cmd/rnp-register/market/keys.h"

#include <stdio.h>

#include "cmd/rnp-register/market/sshkey.h"
#include "common/json/json.h"

int keys_write(const json_t *keys, struct buf *out)
{
	json_t *list = json_array(), *one;
	int rc = 0;
	size_t i;

	json_array_foreach((json_t *)keys, i, one) {
		char where[32], text[SSHKEY_TEXT_MAX];
		struct sshkey key;

		snprintf(where, sizeof where, "ssh_keys[%zu]", i);
		rc = sshkey_parse(json_string_value(one), where, &key);
		if (rc < 0)
			break;
		snprintf(text, sizeof text, "%s %s", key.type, key.blob);
		json_push_text(list, text);
	}
	if (rc == 0)
		json_write(out, list);
	json_decref(list);
	return rc;
}
