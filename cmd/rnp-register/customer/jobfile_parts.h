/* jobfile_parts.h - what the files that read a job file share. For jobfile*.c alone. */
#ifndef RNP_REGISTER_CUSTOMER_JOBFILE_PARTS_H
#define RNP_REGISTER_CUSTOMER_JOBFILE_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/customer/jobfile.h"
#include "cmd/rnp-register/customer/yaml_tree.h"
#include "common/base/buf.h"
#include "common/base/mem.h"

struct job_reader {
	struct arena arena;
	const char *where;
	const struct job_options *options;
	struct jobfile *job;
	json_t *task, *warnings, *envs;
	int64_t nodes;
	struct yaml *root;
};

enum job_how { JOB_WORKS, JOB_NOTHING, JOB_REFUSED };

/* A field that is known: it works, it means nothing here, or it is refused. */
struct job_field {
	const char *name; /* NULL ends a list */
	enum job_how how;
	const char *instead; /* what to write, or why it means nothing */
};

extern const struct job_field job_top_fields[], job_resource_fields[];

/* Sets an error at the place of a value, or of its field's name. Each returns -1. */
int job_fail(const struct job_reader *r, const struct yaml *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int job_fail_field(const struct job_reader *r, const struct yaml *at, const char *fmt,
	...) __attribute__((format(printf, 3, 4)));
void job_warn(struct job_reader *r, const struct yaml *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Holds the fields of a map against a list, and takes those out that are dropped, null or mean
 * nothing. of: its own name in messages, "" for the file itself. Returns 0, or -1. */
int job_check_fields(struct job_reader *r, struct yaml *map, const char *of,
	const struct job_field *fields);
bool job_drops(const struct job_reader *r, const char *name);
void job_note_dropped(struct job_reader *r, const char *name);

/* Read a value of one type. Each returns 0, or -1. v must not be NULL; where v came by a field, its
 * name is in the message. */
int job_text(const struct job_reader *r, const struct yaml *v, const char **out);
int job_whole(const struct job_reader *r, const struct yaml *v, int64_t min, int64_t max,
	int64_t *out);
int job_bool(const struct job_reader *r, const struct yaml *v, bool *out);
int job_uusd(const struct job_reader *r, const struct yaml *v, int64_t *uusd);
int job_is(const struct job_reader *r, const struct yaml *v, enum yaml_type type,
	const char *as);
/* A text, as it is written also where it is a number: "8", "8+". */
int job_word(const struct job_reader *r, const struct yaml *v, const char **out);

/* envs and secrets, with what the command line gives. */
int job_read_envs(struct job_reader *r);
/* Fills $NAME and ${NAME} of envs into all texts and names below v. */
int job_fill(struct job_reader *r, struct yaml *v);

/* resources, as wishes of the task. */
int job_read_resources(struct job_reader *r);

/* Appends the wishes that `accelerators` (may be NULL: no GPU) make of a wish, which is borrowed.
 * *ordered: the value is a list, which means in this order. */
int job_read_gpus(struct job_reader *r, const struct yaml *v, const json_t *wish,
	json_t *wishes, bool *ordered);

int job_read_mounts(struct job_reader *r);
int job_read_artifacts(struct job_reader *r);
int job_read_places(struct job_reader *r, json_t *wish);

/* Turns the tree of a file for `fedml launch`, or of dstack, into one with our names. */
int job_convert(struct job_reader *r);

extern const struct job_field job_fedml_fields[], job_dstack_fields[];

/* Put what one of their fields says into the new tree. Each returns 0, or -1. */
int job_put_fedml(struct job_reader *r, struct yaml *out, struct yaml *v);
int job_put_dstack(struct job_reader *r, struct yaml *out, struct yaml *v);

/* New values for that tree; the place is that of `at`. */
struct yaml *job_new(struct job_reader *r, const struct yaml *at, enum yaml_type type,
	const char *text);
struct yaml *job_new_text(struct job_reader *r, const struct yaml *at,
	const struct buf *text);
/* Appends a field to a map that has it not yet. The value is moved: it may be another's. */
void job_put(struct yaml *map, const char *key, struct yaml *v);
/* The new tree's resources, made when first needed. */
struct yaml *job_resources_of(struct job_reader *r, struct yaml *out);
/* Puts an image, as they name it, into resources. Returns 0, or -1. */
int job_put_image(struct job_reader *r, struct yaml *out, const struct yaml *v);

#endif
