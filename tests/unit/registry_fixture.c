/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "error_fixture.h"

static enum MHD_Result answer(void *opaque, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **request)
{
    struct fixture *f = opaque;
    char *password = NULL;
    char *user = MHD_basic_auth_get_username_password(connection, &password);
    (void)method, (void)version, (void)data, (void)data_size, (void)request;
    (void)pthread_mutex_lock(&f->lock);
    f->requests++;
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    (void)snprintf(f->user, sizeof f->user, "%s", user == NULL ? "" : user);
    (void)snprintf(f->password, sizeof f->password, "%s", password == NULL ? "" : password);
    while (f->stuck)
        (void)pthread_cond_wait(&f->changed, &f->lock);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(f->body), (void *)(uintptr_t)f->body, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rc = MHD_queue_response(connection, f->status, response);
    (void)pthread_mutex_unlock(&f->lock);
    MHD_destroy_response(response);
    MHD_free(user);
    MHD_free(password);
    return rc;
}

int64_t test_mono_ms;

static int64_t now(void)
{
    return test_mono_ms;
}

struct rp_registry_options options_of(const struct fixture *f)
{
    return (struct rp_registry_options){.url = f->url, .timeout_ms = 10000, .now_mono_ms = now};
}

void use(struct fixture *f, struct rp_registry_options options)
{
    rp_registry_free(f->registry);
    if (rp_registry_new(&options, &f->registry, &f->err) != 0)
        fail_msg("%s", f->err.text);
}

int set_up(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL)
        return -1;
    *state = f;
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->changed, NULL);
    f->server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0,
                                 NULL, NULL, answer, f, MHD_OPTION_SOCK_ADDR, &any, MHD_OPTION_END);
    if (f->server == NULL)
        return -1;
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u",
                   (unsigned)MHD_get_daemon_info(f->server, MHD_DAEMON_INFO_BIND_PORT)->port);
    test_mono_ms = 5000;
    use(f, options_of(f));
    return 0;
}

int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_registry_free(f->registry);
    MHD_stop_daemon(f->server);
    (void)pthread_cond_destroy(&f->changed);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

void say(struct fixture *f, unsigned status, const char *body)
{
    (void)pthread_mutex_lock(&f->lock);
    f->status = status;
    f->body = body;
    (void)pthread_mutex_unlock(&f->lock);
}

/* A loaded machine answers later than is waited for. */
static int ask(struct fixture *f, int32_t id, const char **json)
{
    int64_t end_mono_ms = rp_mono_ms() + 20000;
    int rc;
    while ((rc = rp_registry_schema(f->registry, id, json, &f->err)) != 0 &&
           f->err.code == RP_E_TIMEOUT && rp_mono_ms() < end_mono_ms)
        (void)usleep(1000);
    return rc;
}

void assert_schema(struct fixture *f, int32_t id, const char *expected)
{
    const char *json;
    if (ask(f, id, &json) != 0)
        fail_msg("%s", f->err.text);
    assert_string_equal(json, expected);
}

void assert_fails(struct fixture *f, int32_t id, enum rp_error_class cls, const char *because)
{
    const char *json;
    assert_int_equal(ask(f, id, &json), -1);
    assert_int_equal(f->err.cls, cls);
    assert_says(&f->err, because);
}

void assert_no_answer_yet(struct fixture *f, int32_t id)
{
    const char *json;
    assert_int_equal(rp_registry_schema(f->registry, id, &json, &f->err), -1);
    assert_int_equal(f->err.code, RP_E_TIMEOUT);
    assert_int_equal(f->err.cls, RP_RETRIABLE);
    assert_says(&f->err, "schema registry: no answer yet");
}

void assert_schema_soon(struct fixture *f, int32_t id, const char *expected)
{
    const char *json;
    int64_t end_mono_ms = rp_mono_ms() + 20000;
    while (rp_registry_schema(f->registry, id, &json, &f->err) != 0) {
        assert_int_equal(f->err.cls, RP_RETRIABLE);
        if (rp_mono_ms() > end_mono_ms)
            fail_msg("%s", f->err.text);
        (void)usleep(1000);
    }
    assert_string_equal(json, expected);
}

int64_t failing_ms(struct fixture *f, int32_t id)
{
    const char *json;
    int64_t end_mono_ms = rp_mono_ms() + 20000;
    do {
        assert_int_equal(rp_registry_schema(f->registry, id, &json, &f->err), -1);
        if (rp_mono_ms() > end_mono_ms)
            fail_msg("%s", f->err.text);
        (void)usleep(1000);
    } while (f->err.code == RP_E_TIMEOUT);
    assert_int_equal(f->err.code, RP_E_IO);
    assert_int_equal(f->err.cls, RP_RETRIABLE);
    return rp_registry_failing_ms(f->registry);
}

int64_t fail_for_s(struct fixture *f, int32_t id, int seconds)
{
    int64_t ms = failing_ms(f, id);
    for (int i = 0; i < seconds; i++) {
        test_mono_ms += 1000;
        ms = failing_ms(f, id);
    }
    return ms;
}

void set_stuck(struct fixture *f, bool stuck)
{
    (void)pthread_mutex_lock(&f->lock);
    f->stuck = stuck;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
}
