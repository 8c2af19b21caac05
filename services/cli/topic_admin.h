/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TOPIC_ADMIN_H
#define REPRISE_TOPIC_ADMIN_H

#include "topic_plan.h"

/* A client of the cluster for what `reprise topics` asks and changes. Calls wait for their answer;
 * each fails with RP_E_KAFKA or RP_E_TIMEOUT. */
struct topic_admin;

/* Connects, and reads the cluster's metadata. */
RP_NODISCARD int topic_admin_new(const struct rp_config *config, struct topic_admin **out,
                                 struct rp_error *err);
void topic_admin_free(struct topic_admin *admin);

/* Reads the metadata anew. */
RP_NODISCARD int topic_admin_refresh(struct topic_admin *admin, struct rp_error *err);
/* From the metadata: the ids of the brokers that are up, and of those that are away, as far as they
 * have replicas, and whether there is such a topic. */
int topic_admin_brokers(const struct topic_admin *admin);
int topic_admin_broker_id(const struct topic_admin *admin, int i);
#define TOPIC_MAX_AWAY 8
int topic_admin_away(const struct topic_admin *admin, int ids[TOPIC_MAX_AWAY]);
bool topic_admin_has(const struct topic_admin *admin, const char *topic);
/* Whether each partition has a leader. */
bool topic_admin_is_led(const struct topic_admin *admin, const char *topic);

/* The state of a topic that topic_admin_has, or of a broker; clear it after. */
RP_NODISCARD int topic_admin_read(struct topic_admin *admin, const char *topic,
                                  struct topic_state *out, struct rp_error *err);
RP_NODISCARD int topic_admin_read_broker(struct topic_admin *admin, int id, struct topic_state *out,
                                         struct rp_error *err);
void topic_state_clear(struct topic_state *state);

/* *out_created is false where somebody else was quicker. */
RP_NODISCARD int topic_admin_create(struct topic_admin *admin, const struct topic_plan *plan,
                                    bool *out_created, struct rp_error *err);
RP_NODISCARD int topic_admin_alter(struct topic_admin *admin, const char *topic,
                                   const char *setting, const char *value, struct rp_error *err);

#endif
