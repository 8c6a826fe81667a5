/* coordinate_print.c - records of rounds and of their members' work go to standard output, on a thread of its
 * own: who does not read there holds no round up. The database keeps what is not written yet. */
#include <string.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/json/json.h"

/* What is in the database goes to standard output; where a kill keeps it from being noted, once more, the same. */
static int print_rounds(struct coordinator *g)
{
	int rc;

	do {
		uint64_t round;
		json_t *record = NULL;

		pthread_mutex_lock(&g->lock);
		rc = coordinate_db_unprinted(g, &round, &record);
		pthread_mutex_unlock(&g->lock);
		if (rc == 1 && out_record(record) < 0)
			rc = -1;
		json_decref(record);
		pthread_mutex_lock(&g->lock);
		if (rc == 1 && coordinate_db_printed(g, round) < 0)
			rc = -1;
		pthread_mutex_unlock(&g->lock);
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

		pthread_mutex_lock(&g->lock);
		rc = store_prepare(&g->db, &q,
			"SELECT id, record FROM receipts WHERE written = 0 AND id > ?"
			" ORDER BY id LIMIT 1");
		if (rc == 0) {
			store_bind(q, "i", id);
			rc = store_step(&g->db, q);
		}
		if (rc == 1) {
			const char *text = store_text(q, 1);

			id = sqlite3_column_int64(q, 0);
			record = json_parse_object(text, strlen(text), "receipt");
		}
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->lock);
		if (record && out_record(record) < 0)
			rc = -1;
		json_decref(record);
	}
	if (rc == 0 && id) {
		pthread_mutex_lock(&g->lock);
		rc = store_prepare(&g->db, &q,
			"UPDATE receipts SET written = 1 WHERE id <= ?");
		if (rc == 0)
			rc = store_run(&g->db, q, "i", id);
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->lock);
	}
	return rc;
}

static void *print(void *arg)
{
	struct coordinator *g = arg;
	struct printer *p = &g->printer;
	int rc = 0;

	pthread_mutex_lock(&g->lock);
	while (rc == 0 && (p->wanted || !p->ends)) {
		if (!p->wanted) {
			pthread_cond_wait(&p->wake, &g->lock);
			continue;
		}
		p->wanted = false;
		pthread_mutex_unlock(&g->lock);
		rc = print_rounds(g);
		if (rc == 0)
			rc = write_receipts(g);
		pthread_mutex_lock(&g->lock);
	}
	if (rc < 0)
		err_save(&p->failed);
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

void coordinate_print(struct coordinator *g)
{
	g->printer.wanted = true;
	pthread_cond_signal(&g->printer.wake);
}

int coordinate_print_begin(struct coordinator *g)
{
	pthread_cond_init(&g->printer.wake, NULL);
	if (pthread_create(&g->printer.thread, NULL, print, g) != 0)
		return err_sys(EX_OSERR, "cannot start a thread");
	return 0;
}

int coordinate_print_end(struct coordinator *g)
{
	struct printer *p = &g->printer;

	pthread_mutex_lock(&g->lock);
	p->ends = true;
	coordinate_print(g);
	pthread_mutex_unlock(&g->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->wake);
	return p->failed.code ? err_restore(&p->failed) : 0;
}
