/* SPDX-License-Identifier: Apache-2.0 */
/* Writes schemas as C: embed_schemas OUT.c SCHEMA.avsc... */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema.h"

static int read_file(const char *path, struct rp_buf *out, struct rp_error *err)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot open it");
    char part[4096];
    size_t n;
    int rc = 0;
    while (rc == 0 && (n = fread(part, 1, sizeof part, f)) > 0)
        rc = rp_buf_append(out, part, n, err);
    if (rc == 0 && ferror(f))
        rc = rp_fail(err, RP_E_IO, RP_FATAL, "cannot read it");
    (void)fclose(f);
    return rc;
}

/* The text as a string literal, a line of the schema a line. */
static void write_literal(FILE *out, struct rp_bytes text)
{
    const char *p = text.data;
    (void)fputs("     \"", out);
    for (size_t i = 0; i < text.len; i++) {
        if (p[i] == '\n')
            (void)fputs(i + 1 == text.len ? "\\n" : "\\n\"\n     \"", out);
        else if (p[i] == '"' || p[i] == '\\')
            (void)fprintf(out, "\\%c", p[i]);
        else
            (void)fputc(p[i], out);
    }
    (void)fputc('"', out);
}

static int embed(FILE *out, const char *path, struct rp_error *err)
{
    struct rp_buf json = {0};
    struct rp_schema schema = {0};
    uint64_t fingerprint;
    int rc = -1;
    if (read_file(path, &json, err) != 0 ||
        rp_schema_parse(rp_buf_bytes(&json), &schema, err) != 0 ||
        rp_schema_fingerprint(schema.root, &fingerprint, err) != 0) {
        (void)rp_fail_in(err, "%s", path);
        goto done;
    }
    (void)fprintf(out, "    {\"%s\", UINT64_C(0x%016" PRIx64 "),\n", avro_schema_name(schema.root),
                  fingerprint);
    write_literal(out, rp_buf_bytes(&json));
    (void)fputs("},\n", out);
    rc = 0;
done:
    rp_schema_clear(&schema);
    rp_buf_clear(&json);
    return rc;
}

int main(int argc, char **argv)
{
    struct rp_error err;
    FILE *out = argc < 3 ? NULL : fopen(argv[1], "w");
    if (out == NULL) {
        (void)fprintf(stderr, "usage: embed_schemas OUT.c SCHEMA.avsc...\n");
        return 2;
    }
    (void)fputs("#include \"embedded.h\"\n\n"
                "const struct rp_embedded_schema rp_embedded_schemas[] = {\n",
                out);
    int rc = 0;
    for (int i = 2; i < argc && rc == 0; i++)
        rc = embed(out, argv[i], &err);
    (void)fprintf(out, "};\nconst size_t rp_n_embedded_schemas = %d;\n", argc - 2);
    if (ferror(out) | fclose(out)) {
        (void)fprintf(stderr, "embed_schemas: cannot write %s\n", argv[1]);
        return 1;
    }
    if (rc != 0)
        (void)fprintf(stderr, "embed_schemas: %s\n", err.text);
    return rc == 0 ? 0 : 1;
}
