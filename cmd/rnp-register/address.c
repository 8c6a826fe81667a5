/* address.c - rnp-register address: prints the address of a key, in base58 or as did:key. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/record/key.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static const char *key_path, *passphrase_file;
static bool did;

static const struct opt opts[] = {
	OPT_SWITCH("did", &did, "print did:key instead of the base58 address"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	{ 0 },
};

static int run(int nargs, char **args)
{
	struct key k = KEY_INIT;
	char text[KEY_DID_MAX];
	int rc;

	(void)nargs, (void)args;
	rc = key_load(&k, key_path, passphrase_file);
	if (rc == 0) {
		if (did)
			key_did(k.public_key, text);
		else
			snprintf(text, sizeof text, "%s", k.address);
		strcat(text, "\n");
		rc = out_text(text, strlen(text));
	}
	key_release(&k);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_address = {
	.name = "address",
	.summary = "Print the address of a key.",
	.details = "One line of plain text, the same address that Solana's tools print.",
	.group = "node",
	.opts = opts,
	.run = run,
};
