/* volume.c - names and costs of volumes, and lines of mountinfo. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/agent/volume.h"

#include <string.h>

#include "cmd/rnp-register/agent/mounts.h"
#include "tests/unit/test.h"

static bool row_of(struct mount_row *row, char *line, const char *text)
{
	strcpy(line, text);
	return mount_row_read(row, line);
}

static void rows(void)
{
	struct mount_row row;
	char line[512];

	CHECK(row_of(&row, line,
		"36 35 98:10 /sub /mnt/with\\040space rw,noatime master:1 shared:7 - ext4 /dev/loop0 rw,errors=continue\n"));
	CHECK_I64(98, row.major);
	CHECK_I64(10, row.minor);
	CHECK_TEXT("/sub", row.root);
	CHECK_TEXT("/mnt/with space", row.point);
	CHECK_TEXT("ext4", row.type);
	CHECK_TEXT("/dev/loop0", row.source);
	CHECK_TEXT("rw,errors=continue", row.options);
	/* no optional fields; a name that was cut within an escape stays as it is */
	CHECK(row_of(&row, line,
		"1 2 0:5 net:[4026532000] /run/x\\04 rw - nsfs nsfs rw"));
	CHECK_TEXT("net:[4026532000]", row.root);
	CHECK_TEXT("/run/x\\04", row.point);
	CHECK(!row_of(&row, line, ""));
	CHECK(!row_of(&row, line, "36 35 98 / /mnt rw - ext4 a b"));
	CHECK(!row_of(&row, line, "36 35 98:x / /mnt rw - ext4 a b"));
	CHECK(!row_of(&row, line, "36 35 98:0 / /mnt rw master:1 ext4 a b"));
	CHECK(!row_of(&row, line, "36 35 98:0 / /mnt rw - ext4 a"));
}

static void paths(void)
{
	struct buf path = BUF_INIT;

	CHECK(path_is_in("/a/b", "/a"));
	CHECK(path_is_in("/a", "/a"));
	CHECK(!path_is_in("/ab", "/a"));
	CHECK(!path_is_in("/", "/a"));
	volume_data(&path, "/v", "x");
	CHECK_TEXT("/v/x/data", path.data);
	buf_reset(&path);
	volume_file(&path, "/v", "x");
	CHECK_TEXT("/v/x.img", path.data);
	buf_release(&path);
}

static void names(void)
{
	CHECK(volume_id_is_good("0123456789abcdef-1"));
	CHECK(!volume_id_is_good(""));
	CHECK(!volume_id_is_good("-a"));
	CHECK(!volume_id_is_good("a.img"));
	CHECK(!volume_id_is_good("../a"));
	CHECK(!volume_id_is_good("\xc3\xa4"));
	CHECK_I64(256 + 1, volume_cost(256));
	CHECK_I64(VOLUME_BYTES_MAX + VOLUME_BYTES_MAX / 256,
		volume_cost(VOLUME_BYTES_MAX));
}

int main(void)
{
	rows();
	paths();
	names();
	TEST_END();
}
