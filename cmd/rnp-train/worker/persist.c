/* persist.c - makes what an assignment leaves durable on a thread of its own, while its delta is
 * sent or the next steps are made: a disk takes as long as the round trips of a home link.
 *
 * Files get their names at once, so that the program goes on with them. Only state.json says which
 * of them belong together: it is written last, when they are on the disk. Pieces of a delta may
 * leave earlier, because they do not count without their record, which waits for worker_persisted.
 * A worker that is killed before that makes the assignment again, with the same bytes. */
#include <stdlib.h>

#include "cmd/rnp-train/worker/worker.h"
#include "common/base/io.h"

static void *persist(void *arg)
{
	struct worker *w = arg;
	struct persisting *k = &w->persisting;
	int rc = 0;

	for (int i = 0; rc == 0 && i < k->n; i++)
		rc = flatfile_sync(&k->files[i]);
	if (rc == 0 && k->container)
		rc = io_flush_file(k->container);
	if (rc == 0 && k->n)
		rc = io_flush_directory(k->files[0].path);
	if (rc == 0)
		rc = join_state_save(&w->state);
	if (rc < 0)
		err_save(&k->failed);
	for (int i = 0; i < k->n; i++)
		flatfile_close(&k->files[i]);
	free(k->container);
	k->container = NULL;
	return NULL;
}

int worker_persist(struct worker *w, struct flatfile *files, int n)
{
	struct persisting *k = &w->persisting;
	int rc = worker_persisted(w);

	for (k->n = 0; k->n < n; k->n++) {
		if (rc == 0)
			rc = flatfile_name(&files[k->n]);
		k->files[k->n] = files[k->n];
		files[k->n] = (struct flatfile)FLATFILE_INIT;
	}
	if (rc == 0 && pthread_create(&k->thread, NULL, persist, w) != 0)
		rc = err_sys(EX_OSERR, "cannot start a thread");
	k->runs = rc == 0;
	for (int i = 0; rc < 0 && i < n; i++)
		flatfile_close(&k->files[i]);
	if (rc < 0) {
		free(k->container);
		k->container = NULL;
	}
	return rc;
}

int worker_persisted(struct worker *w)
{
	struct persisting *k = &w->persisting;

	if (k->runs)
		pthread_join(k->thread, NULL);
	k->runs = false;
	return k->failed.code ? err_restore(&k->failed) : 0;
}
