/* gpu.h - a table that maps the many names of a GPU model to one name and its properties.
 *
 * Pure: no I/O, no clock. Safe from any thread. Uses libc, err.
 *
 * Canonical names are the maker's own without "NVIDIA", "GeForce", "Radeon" and the like: "RTX
 * 4090", "RTX 3080 12GB", "RTX A6000", "RTX 6000 Ada", "H100 SXM", "H100 PCIe", "A100 80GB
 * SXM", "A100 40GB PCIe", "H200", "L40S", "MI300X". A variant is in the name only if variants
 * are sold under one name; the one that the plain name means for the maker keeps the plain name
 * ("RTX 3080" is the card of 10 GB).
 *
 * Some feeds say less than that ("A100-80GB", "H100"). Then the chip is known and the variant
 * is not: they get rows of their own ("A100 80GB", "H100"), marked unspecific, in which a
 * figure that differs between the variants is 0. */
#ifndef RNP_COMMON_RECORD_GPU_H
#define RNP_COMMON_RECORD_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_model {
	const char *name; /* canonical */
	/* the name in reward tables: "H100" for "H100 SXM"; usually the same */
	const char *family;
	const char *vendor; /* "NVIDIA", "AMD" */
	bool unspecific;    /* the chip is known, its form or memory is not */
	/* 0 in any of these: not published, or the variants of the name differ */
	int64_t memory_bytes;     /* as sold, GiB */
	int64_t f32_gflops;       /* 10^9 FLOP/s, at boost clock, without tensor cores */
	int64_t tensor_gflops;    /* f16 in, f32 accumulated, dense */
	int64_t bandwidth_mbytes; /* memory, 10^6 B/s */
	int64_t power_w;          /* board power limit as shipped */
	int64_t tensor_cores;     /* matrix cores for AMD */
	int64_t msrp_uusd;        /* at launch, US dollars */
	const char *aliases;      /* further keys, see gpu.c */
};

/* Returns the model that any_name means, or NULL when that is not certain: a name that is not in
 * the table, or a memory that no such card has. memory_bytes is that of one GPU as a driver or a
 * market reports it (it may be up to a tenth less than sold; 0: unknown); it tells variants of
 * one name apart ("RTX 3080" with 12 GiB is the "RTX 3080 12GB"), as does a size within the name
 * ("3080-12G"). With no size at all the plain name is meant. "RTX 4090D", "A100X" or "RTX 3080
 * Laptop GPU" are never taken for their relatives. */
const struct gpu_model *gpu_find(const char *any_name, int64_t memory_bytes);

/* Returns all *n rows. Rows of one name differ in memory, and the first is what the plain name
 * means. */
const struct gpu_model *gpu_table(size_t *n);

#endif
