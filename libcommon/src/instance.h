/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_INSTANCE_H
#define REPRISE_INSTANCE_H

#include "reprise/error.h"

/* A name for this process among its like, which no other live process has, and which the process
 * that replaces it after a kill -9 gets again: so that Kafka fences the dead one's transaction at
 * once, and the group knows the member again, instead of waiting out a timeout.
 *
 * The like of a process are those of the same key (service, cluster, prefix) on this machine. Each
 * holds the first name that was free, as the address of a Unix socket. The addresses are the
 * kernel's (the abstract ones, see unix(7)): no file is left behind, nothing in the environment or
 * in /tmp matters, and the kernel frees the name when the process ends, however it does. */
struct rp_instance;

/* The name is "<configured>-<slot>", or where `configured` is NULL, "<host>-<hash>-<slot>", with a
 * hash of machine, user and key. Fails with RP_E_INVALID when `configured` is not 1 to 64 of
 * [A-Za-z0-9._-], with RP_E_IO when there are no such sockets, with RP_E_FULL when all slots are
 * taken. */
RP_NODISCARD int rp_instance_claim(const char *configured, const char *key,
                                   struct rp_instance **out, struct rp_error *err);
/* Gives the slot back. */
void rp_instance_release(struct rp_instance *instance);

/* At most 80 characters of [A-Za-z0-9._-]. */
const char *rp_instance_name(const struct rp_instance *instance);

#endif
