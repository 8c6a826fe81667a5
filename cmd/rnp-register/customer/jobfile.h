/* jobfile.h - a job file: what a customer wants to run, on what, and with which files.
 *
 * Names are SkyPilot's; files of `fedml launch` and dstack's tasks are turned into them first.
 * rnp-job(5) lists every field. Pure: reads no file, no environment and no clock. Uses yaml_tree,
 * gpu, amount, num, err, jansson. */
#ifndef RNP_REGISTER_CUSTOMER_JOBFILE_H
#define RNP_REGISTER_CUSTOMER_JOBFILE_H

#include <jansson.h>
#include <stddef.h>

/* A variable that the command line gives; value borrowed. */
struct job_given {
	const char *name, *value;
};

/* What the command line adds to a file. All borrowed. */
struct job_options {
	const struct job_given *envs, *secrets;
	int nenvs, nsecrets;
	const char *const *drop; /* fields that are left out, and "stores" */
	int ndrop;
};

/* A secret: its value is in no record. Wiped by jobfile_release. */
struct job_secret {
	char *name, *value;
};

struct jobfile {
	json_t *task; /* an rnp.task record: see rnp-json(5) */
	struct job_secret *secrets;
	size_t nsecrets;
};
/* clang-format off */
#define JOBFILE_INIT { 0 }
/* clang-format on */

/* Reads a job file of len bytes with a NUL behind them. where names it in messages and, without its
 * folder and ending, a job that has no name. Returns 0, or -1 with one line that has place and
 * remedy (EX_DATAERR), or EX_USAGE: something to drop that no job file has. job is then empty. */
int jobfile_read(struct jobfile *job, const char *text, size_t len, const char *where,
	const struct job_options *options);

void jobfile_release(struct jobfile *job);

#endif
