/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_GROUP_PREFIX_H
#define REPRISE_CLI_GROUP_PREFIX_H

#include "filter.h"

/* The first digits of a group are a range. Who looks may see more groups than were thought of; what
 * is done shall not be done to more. Prints, for digits that fit several groups of those that
 * match, which ones: CLI_USAGE. `only`: SQL over their counts AS g, to leave out what nothing is
 * done to. */
int group_prefix_check(struct rp_db *db, const struct rp_filter *filter, const char *only);

#endif
