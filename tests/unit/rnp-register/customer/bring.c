/* bring.c - artifacts come home whole or not at all, no larger than was agreed, and replace
 * nothing, whatever registry and node say. A real registry. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/customer/bring.h"

#include <sys/stat.h>

#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "tests/unit/rnp-register/market/serve.h"

#define MIB INT64_C(1048576)

static char name[TRANSFER_NAME_MAX];
static struct customer c;

/* Keeps a directory at the registry, as a node's artifacts. */
static void keep(void)
{
	const struct pack_config config = { .rules = false };
	struct transfer t = { .http = &http, .base = base, .key = &customer };
	struct pack p;

	CHECK(mkdir(in_place("kept"), 0755) == 0 &&
		mkdir(in_place("kept/work"), 0755) == 0);
	CHECK(io_create(in_place("kept/work/model"), "model", 5, 0644) == 0);
	CHECK(pack_directory(&p, in_place("kept"), &config) == 0);
	sodium_bin2hex(name, sizeof name, p.sha256, sizeof p.sha256);
	CHECK(transfer_upload(&t, &p) == 0);
	pack_release(&p);
}

/* Brings what a record names, in which %s is the manifest. Returns as bring_artifacts; *n: how many
 * came. */
static int bring(const char *fmt, int64_t bytes_max, size_t *n)
{
	struct buf text = BUF_INIT;
	json_t *record;
	int rc;

	buf_addf(&text, "{\"artifacts\":[");
	for (const char *p = fmt; *p; p++)
		if (*p == '%')
			buf_adds(&text, name);
		else
			buf_addc(&text, *p);
	buf_adds(&text, "]}");
	record = json_parse_object(text.data, text.len, "test");
	CHECK(record != NULL);
	rc = bring_artifacts(&c, record, CLUSTER, in_place("home"), bytes_max);
	*n = json_array_size(json_object_get(record, "artifacts"));
	json_decref(record);
	buf_release(&text);
	return rc;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(in_place(path), &st) == 0;
}

static void come_home(void)
{
	size_t n;

	/* too large, before a byte of a file has come */
	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":0,\"sha256\":\"%\"}", 4, &n));
	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":0,\"sha256\":\"%\"}", 0, &n));
	CHECK(!is_there("home/0"));
	CHECK(bring("{\"rank\":0,\"sha256\":\"%\"},{\"rank\":3,\"sha256\":\"%\"}", MIB,
		      &n) == 0);
	CHECK_I64(2, (int64_t)n);
	CHECK(is_there("home/0/work/model") && is_there("home/3/work/model"));
	/* the same rank twice; the other ones come in any case */
	CHECK_FAILS(EX_CANTCREAT,
		bring("{\"rank\":1,\"sha256\":\"%\"},{\"rank\":1,\"sha256\":\"%\"},"
		      "{\"rank\":2,\"sha256\":\"%\"}",
			MIB, &n));
	CHECK_I64(2, (int64_t)n);
	CHECK(is_there("home/1/work/model") && is_there("home/2/work/model"));
}

/* What is there is the customer's. */
static void replaces_nothing(void)
{
	struct buf text = BUF_INIT;
	size_t n;

	CHECK(mkdir(in_place("home/4"), 0755) == 0);
	CHECK(io_create(in_place("home/4/mine"), "mine", 4, 0644) == 0);
	CHECK(io_create(in_place("home/5"), "mine", 4, 0644) == 0);
	CHECK(symlink("4", in_place("home/6")) == 0);
	CHECK(mkdir(in_place("empty"), 0755) == 0);
	CHECK(symlink("../empty", in_place("home/7")) == 0);
	for (int rank = 4; rank < 8; rank++) {
		char one[60];

		snprintf(one, sizeof one, "{\"rank\":%d,\"sha256\":\"%%\"}", rank);
		CHECK_FAILS(EX_CANTCREAT, bring(one, MIB, &n));
		CHECK_I64(0, (int64_t)n);
	}
	CHECK(io_read(&text, in_place("home/4/mine"), 100) == 0);
	CHECK_TEXT("mine", buf_text(&text));
	CHECK(is_there("home/5") && !is_there("home/4/work") && !is_there("empty/work"));
	buf_release(&text);
}

/* Where the registry keeps a blob. */
static const char *kept_at(const char *sha256)
{
	char path[120];

	snprintf(path, sizeof path, "registry.db.blobs/%.2s/%s", sha256, sha256 + 2);
	return in_place(path);
}

/* What the registry has altered does not come, and is named. */
static void altered(void)
{
	unsigned char hash[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];
	struct buf list = BUF_INIT;
	size_t n;

	sha256(hash, "model", 5);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	CHECK(io_replace(kept_at(hex), "evil!", 5, 0600) == 0);
	CHECK(bring("{\"rank\":10,\"sha256\":\"%\"}", MIB, &n) < 0);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strstr(err_get()->text, "blob 0 is not what its hash says") != NULL);
	err_clear();
	CHECK(io_read(&list, kept_at(name), MIB) == 0);
	list.data[list.len - 1] = ' ';
	CHECK(io_replace(kept_at(name), list.data, list.len, 0600) == 0);
	CHECK(bring("{\"rank\":10,\"sha256\":\"%\"}", MIB, &n) < 0);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strstr(err_get()->text, name) != NULL);
	err_clear();
	CHECK(!is_there("home/10"));
	buf_release(&list);
}

/* The registry's words lead nowhere. */
static void leads_out(void)
{
	size_t n;

	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":-1,\"sha256\":\"%\"}", MIB, &n));
	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":64,\"sha256\":\"%\"}", MIB, &n));
	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":\"../x\",\"sha256\":\"%\"}", MIB, &n));
	CHECK_FAILS(EX_DATAERR,
		bring("{\"rank\":9,\"sha256\":\"../clusters?x=1\"}", MIB, &n));
	CHECK_FAILS(EX_DATAERR, bring("{\"rank\":9}", MIB, &n));
	CHECK(!is_there("home/9"));
}

/* A cluster's name becomes a folder's. */
static void cluster_names(void)
{
	json_t *proposal = json_record("rnp.proposal"), *offer = json_object(), *cluster;
	const char *const names[] = { CLUSTER, "../../../../../../etc/cron.daily",
		"0123456789ABCDEF0123456789ABCDEF" };

	json_set_text(proposal, "signer", registrar.address);
	json_set(proposal, "offers", json_array());
	json_set(offer, "nodes", json_array());
	json_push(json_object_get(proposal, "offers"), offer);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		cluster = json_record("rnp.cluster");
		json_set_text(cluster, "signer", registrar.address);
		json_set_text(cluster, "cluster", names[i]);
		json_set_text(cluster, "state", "reserved");
		json_set(cluster, "nodes", json_array());
		CHECK(signature_add(cluster, &registrar, 1700000000000) == 0);
		if (i == 0)
			CHECK(offer_check_cluster(proposal, cluster) == 0);
		else
			CHECK_FAILS(EX_DATAERR, offer_check_cluster(proposal, cluster));
		json_decref(cluster);
	}
	json_decref(proposal);
}

int main(void)
{
	const struct registry_config config = { 0 };

	make_keys();
	start_with(&config);
	make_market();
	c = (struct customer){ .http = HTTP_INIT, .registry = base, .key = &customer };
	keep();
	come_home();
	replaces_nothing();
	leads_out();
	altered();
	cluster_names();
	customer_release(&c);
	stop();
	clean_up();
	TEST_END();
}
