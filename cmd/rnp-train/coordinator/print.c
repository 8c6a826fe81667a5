/* print.c - records of rounds and of their members' work go to standard output, on a thread of its
 * own: who does not read there holds no round up. The database keeps what is not written yet. */
#include <string.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/json/json.h"

/* Prints the records that are not printed yet. A kill between print and note prints one twice, with
 * the same bytes. */
static int print_rounds(struct coordinator *g)
{
	int rc;

	do {
		uint64_t round;
		json_t *record = NULL;

		pthread_mutex_lock(&g->rounds.lock);
		rc = coordinate_db_unprinted(g, &round, &record);
		pthread_mutex_unlock(&g->rounds.lock);
		if (rc == 1 && out_record(record) < 0)
			rc = -1;
		json_decref(record);
		pthread_mutex_lock(&g->rounds.lock);
		if (rc == 1 && coordinate_db_printed(g, round) < 0)
			rc = -1;
		pthread_mutex_unlock(&g->rounds.lock);
	} while (rc == 1);
	return rc;
}

/* Receipts on standard output; one that was written and not noted is written again. */
static int write_receipts(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;
	int64_t id = 0;
	int rc = 1;

	while (rc == 1) {
		json_t *record = NULL;

		pthread_mutex_lock(&g->rounds.lock);
		rc = store_prepare(&g->rounds.db, &q,
			"SELECT id, record FROM receipts WHERE written = 0 AND id > ?"
			" ORDER BY id LIMIT 1");
		if (rc == 0) {
			store_bind(q, "i", id);
			rc = store_step(&g->rounds.db, q);
		}
		if (rc == 1) {
			const char *text = store_text(q, 1);

			id = sqlite3_column_int64(q, 0);
			record = json_parse_object(text, strlen(text), "receipt");
		}
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->rounds.lock);
		if (record && out_record(record) < 0)
			rc = -1;
		json_decref(record);
	}
	if (rc == 0 && id) {
		pthread_mutex_lock(&g->rounds.lock);
		rc = store_prepare(&g->rounds.db, &q,
			"UPDATE receipts SET written = 1 WHERE id <= ?");
		if (rc == 0)
			rc = store_run(&g->rounds.db, q, "i", id);
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->rounds.lock);
	}
	return rc;
}

static void *print(void *arg)
{
	struct coordinator *g = arg;
	struct printer *p = &g->printing.printer;
	int rc = 0;

	pthread_mutex_lock(&g->rounds.lock);
	while (rc == 0 && (p->wanted || !p->ends)) {
		if (!p->wanted) {
			pthread_cond_wait(&p->wake, &g->rounds.lock);
			continue;
		}
		p->wanted = false;
		pthread_mutex_unlock(&g->rounds.lock);
		rc = print_rounds(g);
		if (rc == 0)
			rc = write_receipts(g);
		pthread_mutex_lock(&g->rounds.lock);
	}
	if (rc < 0)
		err_save(&p->failed);
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	return NULL;
}

void coordinate_print(struct coordinator *g)
{
	g->printing.printer.wanted = true;
	pthread_cond_signal(&g->printing.printer.wake);
}

int coordinate_print_begin(struct coordinator *g)
{
	pthread_cond_init(&g->printing.printer.wake, NULL);
	if (pthread_create(&g->printing.printer.thread, NULL, print, g) != 0)
		return err_sys(EX_OSERR, "cannot start a thread");
	return 0;
}

int coordinate_print_end(struct coordinator *g)
{
	struct printer *p = &g->printing.printer;

	pthread_mutex_lock(&g->rounds.lock);
	p->ends = true;
	coordinate_print(g);
	pthread_mutex_unlock(&g->rounds.lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->wake);
	return p->failed.code ? err_restore(&p->failed) : 0;
}
