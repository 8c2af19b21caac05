/* SPDX-License-Identifier: Apache-2.0 */
#include "jq_preview.h"

#include <stdio.h>

#include "database.h"
#include "diff.h"
#include "letter.h"
#include "registry.h"
#include "transform.h"

struct jq_preview {
    struct rp_db *db;
    const struct rp_replay_options *options;
    struct rp_replay_maker *maker;
    struct rp_registry *registry;
    struct rp_message_reader *reader;
    struct rp_transform *transform;
    struct rp_arena arena;
};

static int open_all(struct jq_preview *p, const struct rp_config *config,
                    const struct rp_replay_options *o, struct rp_error *err)
{
    if (rp_registry_open(config, &p->registry, err) != 0 ||
        rp_message_reader_new(NULL, p->registry, &p->reader, err) != 0)
        return -1;
    if (o->payload_schema != NULL &&
        rp_message_reader_schema(p->reader, rp_str(o->payload_schema), err) != 0)
        return -1;
    const struct rp_transform_options options = {
        .jq = o->jq,
        .payload_schema = o->payload_schema,
        .registry = p->registry,
        .patience_ms = -1,
    };
    return rp_transform_new(&options, &p->transform, err);
}

/* The router finds a target itself. */
static int judge(struct jq_preview *p, struct rp_bytes task_type, const char *target,
                 struct rp_error *err)
{
    const char *refused = NULL;
    struct rp_bytes topic = rp_str(target);
    if (p->options->to_router)
        return 0;
    if (rp_replay_judge_target(p->maker, task_type, &topic, &refused, err) != 0) {
        (void)printf("Target:     not looked at: %s\n", err->text);
        return 0;
    }
    return refused == NULL ? 0 : rp_fail(err, RP_E_INVALID, RP_POISON, "%s", refused);
}

/* The program, or the dead letter, is to blame: that is what is looked for. */
static int show(struct jq_preview *p, const char *id, struct rp_bytes task_type,
                struct rp_error *err)
{
    struct letter letter;
    struct rp_message changed;
    rp_arena_reset(&p->arena);
    int rc = letter_read(p->db, id, NULL, &p->arena, &letter, err);
    if (rc == 0 && p->options->target != NULL)
        letter.message.target = p->options->target;
    if (rc == 0)
        rc = rp_transform_apply(p->transform, &letter.message, letter.task_json, &p->arena,
                                &changed, err);
    if (rc == 0)
        rc = cli_diff_print(stdout, p->reader, &letter.message, &changed, NULL, err);
    if (rc == 0)
        rc = judge(p, task_type, changed.target, err);
    if (rc != 0 && err->cls == RP_POISON) {
        (void)fflush(stdout);
        cli_error("dead letter %s: %s", id, err->text);
        rc = 0;
    }
    return rc;
}

int jq_preview(const struct rp_config *config, struct rp_db *db,
               const struct rp_replay_options *options, struct rp_replay_maker *maker,
               const PGresult *letters)
{
    struct jq_preview p = {.db = db, .options = options, .maker = maker};
    struct rp_error err;
    if (options->jq == NULL)
        return CLI_OK;
    int rc = open_all(&p, config, options, &err);
    for (int i = 0; rc == 0 && i < PQntuples(letters); i++) {
        const char *id = PQgetvalue(letters, i, 0);
        (void)printf("\nWhat jq makes of %s:\n", id);
        rc = show(&p, id, rp_str(PQgetvalue(letters, i, 1)), &err);
    }
    rp_transform_free(p.transform);
    rp_message_reader_free(p.reader);
    rp_registry_free(p.registry);
    rp_arena_clear(&p.arena);
    if (rc == 0)
        return CLI_OK;
    (void)database_failed(&err);
    return err.cls == RP_POISON ? CLI_USAGE : CLI_FAILED;
}
