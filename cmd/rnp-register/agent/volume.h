/* volume.h - the disk of a lease: a file of the leased size with a file system in it, and in that
 * a folder that the kernel encrypts. Needs root. Uses command, fscrypt, loop, mounts, buf, err.
 *
 * In a folder DIR a lease ID has DIR/ID.img, a sparse file of the leased size with ext4 in it,
 * which is mounted on DIR/ID (nosuid, nodev, noatime) by a loop device. DIR/ID/data is encrypted
 * with a key that only the kernel has: when the lease ends, or the machine, nobody can read it
 * any more. So the file system keeps no journal: what a crash leaves is unreadable anyway.
 *
 * Whoever fills a volume, with bytes or with files, gets ENOSPC there and nowhere else. The
 * file is sparse, so the host must keep what was sold: volume_room counts that. */
#ifndef RNP_CMD_REGISTER_AGENT_VOLUME_H
#define RNP_CMD_REGISTER_AGENT_VOLUME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"

#define VOLUME_ID_MAX    64
#define VOLUME_BYTES_MIN (INT64_C(16) << 20)
#define VOLUME_BYTES_MAX (INT64_C(1) << 44)

/* Where a node's volumes are. */
struct volume_place {
	/* absolute, without "..", of root alone; made 0711 where it lacks */
	const char *dir;
	int64_t keep_bytes; /* of the disk that is never sold */
};

/* Whether id may name a lease in the agent: 1 to VOLUME_ID_MAX of a-z, 0-9 and "-",
 * not "-" first. Pure. */
bool volume_id_is_good(const char *id);

/* Append the path of a volume's folder for data (encrypted), and of its file. Pure. */
void volume_data(struct buf *out, const char *dir, const char *id);
void volume_file(struct buf *out, const char *dir, const char *id);

/* How large a file of so many bytes may become on the host's disk, with what the disk's file system
 * needs to know where it lies. Pure. */
int64_t volume_cost(int64_t size_bytes);

/* Tries all that a volume needs, with one of VOLUME_BYTES_MIN that is gone afterwards. Returns
 * 0, or -1 with err_set: 69 and what lacks (mkfs.ext4, loop devices, a kernel that encrypts):
 * a node without it sells nothing. */
int volume_probe(const struct volume_place *place);

/* How many bytes may still be sold: what the disk has free, without keep_bytes, and without
 * what the volumes that are there may still grow by. Less than 0: others have taken what was
 * sold. Returns 0, or -1 with err_set. */
int volume_room(const struct volume_place *place, int64_t *room_bytes);

/* Makes and opens a volume. On failure nothing of it stays. Returns 0, or -1 with err_set: 65 a bad
 * id or size, 69 no room or the machine cannot, 73 it is there already, 71, 74, 75. */
int volume_open(const struct volume_place *place, const char *id, int64_t size_bytes);

/* Whether a volume that an earlier process opened is as volume_open left it, and goes on.
 * Returns 0, or -1 with err_set: 66 there is none, 69 its key went with a restart of the
 * machine, or it is not mounted: nothing can be saved then, close it. */
int volume_adopt(const struct volume_place *place, const char *id);

/* What a volume has. */
struct volume_use {
	int64_t size_bytes, free_bytes; /* as who writes there sees it */
	int64_t files, free_files;
	/* the kernel found the file system broken: the host's disk failed or was full */
	bool read_only;
};
int volume_use(const struct volume_place *place, const char *id, struct volume_use *use);

/* Ends a volume: mounts inside go, the kernel drops the key, and file and folder are deleted.
 * Processes that still have files open in it are waited for until timeout_ms are over; then it
 * goes from sight, and what they hold with their end. One that is not there has ended. Returns
 * 0, or -1 with err_set: 75 with the processes that hold it. */
int volume_close(const struct volume_place *place, const char *id, int64_t timeout_ms);

/* How it stands with a volume that was found. */
enum volume_state {
	VOLUME_OPEN, /* mounted */
	VOLUME_SHUT, /* a file that is not mounted, or a folder */
	VOLUME_HELD, /* its name is gone; processes still hold it */
};

/* Calls visit for each volume of the place, whatever of it is there. Returns 0, or -1 with
 * err_set. */
int volume_each(const struct volume_place *place,
	void (*visit)(const char *id, enum volume_state state, int64_t size_bytes,
		void *context),
	void *context);

/* Closes all volumes of which is_live says no. Those that others still hold are not waited for
 * longer than timeout_ms each. *closed gets how many went. Returns 0, or -1 with the last
 * failure; the rest was closed all the same. */
int volume_clean(const struct volume_place *place,
	bool (*is_live)(const char *id, void *context), void *context, int64_t timeout_ms,
	int *closed);

/* Appends up to three processes that have files of a volume's device open, or mounts in a
 * namespace of their own which are made of it or of folders below its mount point: "1234
 * (sleep), 99 (conmon)"; "nobody who is known". */
void volume_holders(struct buf *out, dev_t device, const char *point);

/* Whether a loop device still has this file, though its name is gone. */
bool volume_is_held(const char *file);

#endif
