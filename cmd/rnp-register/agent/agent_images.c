/* agent_images.c - the disk that an agent has for images. */
#include <stdio.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "common/base/err.h"

int agent_open_images(struct agent *a, const char *dir, const char *run)
{
	int64_t wished = a->c->images_bytes;
	struct images_config c = { dir, run, wished, a->place.volumes.keep_bytes,
		a->c->private_images };
	char line[200];

	if (images_open(&a->images, &c, &a->place) < 0)
		return err_add("no disk for images");
	/* what it may still take is not for sale */
	a->place.volumes.keep_bytes += images_grow(&a->images);
	snprintf(line, sizeof line, "images: %.1f of %.1f GB are free%s",
		(double)images_free(&a->images) / 1e9, (double)a->images.size_bytes / 1e9,
		wished && wished != a->images.size_bytes ?
			"; it gets another size when no lease runs" :
			"");
	a->c->say(line);
	return 0;
}
