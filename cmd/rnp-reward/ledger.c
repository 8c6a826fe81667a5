/* ledger.c - rnp-reward ledger: exports the rows of a ledger; imports those of another
 * one, or a co-signature. */
#include <inttypes.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger/ledger.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"

static const char *store, *import, *add;

static const struct opt options[] = {
	OPT_LEDGER(&store),
	OPT(TEXT, "import", &import, "F",
		"take the rows of this file of JSON Lines into a new ledger"),
	OPT(TEXT, "add", &add, "F", "append the rnp.cosign records of this file"),
	{ .kind = OPT_END },
};

static int write_row(void *ctx, int64_t sequence, const json_t *row)
{
	(void)ctx;
	(void)sequence;
	return out_record(row);
}

static int add_cosign(void *l, const struct record *r)
{
	return ledger_add_cosign(l, r->json) < 0 ? err_add("%s", r->where) : 0;
}

static int read_files(struct ledger *l)
{
	char *files[1] = { (char *)add };
	int64_t n;

	if (import) {
		n = ledger_import(l, import);
		if (n < 0)
			return -1;
		prog_info("%s: %" PRId64 " rows", store, n);
	}
	return add ? records_each(files, 1, JSON_RECORD_BYTES_MAX, add_cosign, l) : 0;
}

static int run(int n, char **args)
{
	struct ledger l = LEDGER_INIT;
	int rc = -1;

	(void)n;
	(void)args;
	/* only an import makes a ledger */
	if ((import ? ledger_open(&l, store, false) :
		      ledger_open_existing(&l, store, !add)) == 0) {
		rc = read_files(&l);
		if (rc == 0 && !import && !add)
			rc = ledger_each(&l, NULL, 0, write_row, NULL);
	}
	ledger_close(&l);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_ledger = {
	.name = "ledger",
	.summary = "The rows of a ledger, as JSON Lines that verify reads alone.",
	.details =
		"Writes every row in order. With --import or --add it writes nothing, and takes rows\n"
		"or co-signatures in.",
	.columns = "sequence,kind,policy,from,to,total_base_units,merkle_root,signer",
	.opts = options,
	.run = run,
};
