/* num.h - numbers from text, strictly: the whole text is the number or it is an error.
 *
 * No white space, no "+", no octal, no locale. what names the number in the error ("--size",
 * "in.csv:3: Price"). All functions return 0, or -1 with err_set(EX_DATAERR); the option parser
 * turns that into 64. */
#ifndef RNP_COMMON_BASE_NUM_H
#define RNP_COMMON_BASE_NUM_H

#include <stdint.h>

int num_i64(const char *text, const char *what, int64_t min, int64_t max, int64_t *out);
int num_u64(const char *text, const char *what, uint64_t *out);

/* Reads a finite double; "nan", "inf" and hexadecimal are refused. */
int num_f64(const char *text, const char *what, double *out);

/* Reads an exact decimal such as "1.90" as an integer with `decimals` places (1.90, 6 ->
 * 1900000). An exponent is allowed ("1e-3"). More digits than that are rounded half to even
 * with round true, and an error otherwise. |value| must fit int64_t. */
int num_decimal(const char *text, const char *what, int decimals, int round,
	int64_t *out);

/* "64MiB", "10GB", "4096": bytes. Units: B, KB..PB (powers of 1000), KiB..PiB (of 1024).
 * At least 0; the product must fit. */
int num_size(const char *text, const char *what, int64_t *bytes);

/* "250ms", "10s", "5m", "2h", "7d", "1.5h": milliseconds. A bare number is in seconds. */
int num_duration_ms(const char *text, const char *what, int64_t *ms);

#endif
