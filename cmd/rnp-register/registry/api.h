/* api.h - the registry's routes and metrics, for httpd. */
#ifndef RNP_CMD_REGISTER_REGISTRY_API_H
#define RNP_CMD_REGISTER_REGISTRY_API_H

#include "common/httpd/httpd.h"

/* Ends with a NULL method; the handlers' context is a struct registry. */
extern const struct httpd_route registry_routes[];

/* Appends the registry's own metrics. */
void registry_metrics(void *registry, struct buf *out);

#endif
