/* flatfile.h - an array of floats that lies in a file and is mapped: parameters, momenta and
 * residuals of a run over a network. Uses err, buf.
 *
 * A file is written beside its name and appears whole, when flatfile_keep has it on the disk. Its
 * room is reserved first, so that a full disk is an error and not a signal. */
#ifndef RNP_TRAIN_WIRE_FLATFILE_H
#define RNP_TRAIN_WIRE_FLATFILE_H

#include <stdint.h>

struct flatfile {
	float *x; /* NULL: closed */
	uint64_t n;
	char *path, *part; /* part: where it is until it is kept, NULL when it is */
	int fd;
};
#define FLATFILE_INIT \
	{             \
		0     \
	}

/* Makes an array of n zeros, n at least 1. Returns 0, or -1 with err_set(): 73, 74, 77. */
int flatfile_make(struct flatfile *f, const char *dir, const char *name, uint64_t n);
/* Opens one that was kept, to be read. Returns 0, or -1: 66 absent, 65 not n elements. */
int flatfile_open(struct flatfile *f, const char *dir, const char *name, uint64_t n);
/* Writes everything to the disk and gives the file its name. Returns 0, or -1 (74). */
int flatfile_keep(struct flatfile *f);
/* The same of n that are all in one directory, or not made (x is NULL): the disk gets all of them
 * at once. */
int flatfile_keep_all(struct flatfile *f, int n);
/* Its two halves: the name, which does not last before io_flush_directory, and what is in the file.
 * Return 0, or -1 (74). */
int flatfile_name(struct flatfile *f);
int flatfile_sync(struct flatfile *f);
/* Unmaps; what was not kept is gone. A state of zeros is fine. */
void flatfile_close(struct flatfile *f);

/* BLAKE2b-256 over n floats as little-endian f32: the name of parameters. */
void flatfile_hash(const float *x, uint64_t n, unsigned char out[32]);

/* Removes all files of dir but those that keep names; no directories. */
void flatfile_sweep(const char *dir, int (*keep)(void *ctx, const char *name), void *ctx);

#endif
