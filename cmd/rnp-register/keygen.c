/* keygen.c - rnp-register keygen: makes a new key file, or imports one. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/base/utf8.h"

static const char *out_path, *passphrase_file, *from_path, *from_passphrase_file;

static const struct opt opts[] = {
	OPT(TEXT, "out", &out_path, "F",
		"key file to make (default $XDG_CONFIG_HOME/rnp/key.json)"),
	OPT(TEXT, "passphrase-file", &passphrase_file, "F",
		"encrypt it with the line in this file"),
	OPT(TEXT, "from", &from_path, "F",
		"import the key of this file instead of making one"),
	OPT(TEXT, "from-passphrase-file", &from_passphrase_file, "F",
		"opens that file where it is encrypted"),
	{ 0 },
};

/* The directories of the default path are created; those of a given path must exist. */
static int choose_path(struct buf *path)
{
	char *slash;
	int rc;

	if (out_path) {
		buf_adds(path, out_path);
		return 0;
	}
	if (key_default_path(path) < 0)
		return -1;
	slash = strrchr(path->data, '/');
	*slash = '\0';
	rc = io_make_default_dirs(path->data, 0700);
	*slash = '/';
	return rc;
}

static int print_key(const struct key *k, const char *path)
{
	json_t *record = json_record("rnp.key");
	char did[KEY_DID_MAX];
	int rc;

	key_did(k->public_key, did);
	json_set_text(record, "node", k->address);
	json_set_text(record, "did", did);
	if (utf8_valid(path, strlen(path)))
		json_set_text(record, "file", path);
	json_set_bool(record, "encrypted", passphrase_file != NULL);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int run(int nargs, char **args)
{
	struct key k = KEY_INIT;
	struct buf path = BUF_INIT;
	int rc;

	(void)nargs, (void)args;
	if (out_path && strcmp(out_path, "-") == 0) {
		err_set(EX_USAGE, "--out: a key goes to a file, not to standard output");
		return err_report();
	}
	if (from_passphrase_file && !from_path) {
		err_set(EX_USAGE, "--from-passphrase-file is for --from");
		return err_report();
	}
	rc = from_path ? key_load(&k, from_path, from_passphrase_file) : key_generate(&k);
	if (rc == 0)
		rc = choose_path(&path);
	if (rc == 0)
		rc = key_save(&k, path.data, passphrase_file);
	if (rc == 0)
		rc = print_key(&k, path.data);
	key_release(&k);
	buf_release(&path);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_keygen = {
	.name = "keygen",
	.summary = "Make an Ed25519 key, or import one.",
	.details =
		"Writes a Solana keypair file (mode 0600), or an encrypted one, and never over a file\n"
		"that is there. Prints one rnp.key record with the address.",
	.card = true,
	.group = "node",
	.opts = opts,
	.run = run,
};
