/* join_keep.c - what a turn leaves becomes durable on a thread of its own, while its delta is sent, or the
 * next turn's steps are made: a disk takes as long as a home link's round trips.
 *
 * Files have their names at once, so that the program goes on with them; only state.json gives a name its
 * meaning, and it is written last, when what it names is on the disk. A delta's pieces may leave earlier:
 * they count for nothing without their record, which waits for worker_kept. Who is killed before that makes
 * the turn again, the same bytes. */
#include <stdlib.h>

#include "cmd/rnp-train/join.h"
#include "common/base/io.h"

static void *keep(void *arg)
{
	struct worker *w = arg;
	struct keeping *k = &w->keeping;
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

int worker_keep(struct worker *w, struct flatfile *files, int n)
{
	struct keeping *k = &w->keeping;
	int rc = worker_kept(w);

	for (k->n = 0; k->n < n; k->n++) {
		if (rc == 0)
			rc = flatfile_name(&files[k->n]);
		k->files[k->n] = files[k->n];
		files[k->n] = (struct flatfile)FLATFILE_INIT;
	}
	if (rc == 0 && pthread_create(&k->thread, NULL, keep, w) != 0)
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

int worker_kept(struct worker *w)
{
	struct keeping *k = &w->keeping;

	if (k->runs)
		pthread_join(k->thread, NULL);
	k->runs = false;
	return k->failed.code ? err_restore(&k->failed) : 0;
}
