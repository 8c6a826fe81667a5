/* yaml_json.h - a tree of what is JSON, and nothing that libyaml reads. For yaml_tree.c alone. */
#ifndef RNP_REGISTER_CUSTOMER_YAML_JSON_H
#define RNP_REGISTER_CUSTOMER_YAML_JSON_H

#include "cmd/rnp-register/customer/yaml_tree.h"

/* Returns the tree of one JSON object within the limits of yaml_read, without places; else NULL,
 * and an error may be pending. */
struct yaml *yaml_from_json(struct arena *a, const char *text, size_t len);

#endif
