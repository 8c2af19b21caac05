/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_TABLE_H
#define REPRISE_CONFIG_TABLE_H

#include "params.h"

/* All parameters of the file, over struct rp_config. */
extern const struct rp_param rp_config_params[];

#endif
