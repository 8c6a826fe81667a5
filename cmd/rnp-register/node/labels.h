/* labels.h - what an operator says about a node: NAME=VALUE. Pure. */
#ifndef RNP_REGISTER_NODE_LABELS_H
#define RNP_REGISTER_NODE_LABELS_H

#include <jansson.h>

/* Adds "country=DE" to the labels of a node's record; the values of compliance are a list. Returns
 * 0, or -1 with err_set(EX_USAGE): another form, or a name that nobody would look for. */
int label_add(json_t *labels, const char *text);

#endif
