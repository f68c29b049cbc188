/* env -- see env.h.  Reads /proc and uname; runs no program, and what it cannot learn it calls unknown. */
#include "exp/env.h"
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include "build.h"
#include "nn/gemm.h"
#include "nn/kern.h"

static const char *cpu_model(char *line, size_t size)
{
    const char *model = NULL;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && !model && fgets(line, (int)size, f))
        if (!strncmp(line, "model name", 10)) model = strchr(line, ':');
    if (f) fclose(f);
    if (!model) return "unknown";
    line[strcspn(line, "\n")] = '\0';
    return model + 1 + strspn(model + 1, " ");
}

static void add(struct str *out, const char *key, const char *value)
{
    str_add(out, out->len && out->text[out->len - 1] == '{' ? "" : ",");
    str_json(out, key);
    str_add(out, ":");
    str_json(out, value);
}

void env_json(struct str *out, const struct run_config *config)
{
    char line[256], kernel[2 * sizeof ((struct utsname *)0)->release];
    struct utsname name = { .sysname = "unknown" };
    uname(&name);
    snprintf(kernel, sizeof kernel, "%s %s", name.sysname, name.release);
    str_add(out, "{");
    add(out, "blas", gemm_library());
    add(out, "commit", BUILD_COMMIT);
    add(out, "compiler", BUILD_COMPILER);
    add(out, "cpu", cpu_model(line, sizeof line));
    add(out, "dirty", BUILD_DIRTY ? "yes" : "no");
    add(out, "encoder_sha256", config->encoder_file->sha256);
    add(out, "flags", BUILD_FLAGS);
    add(out, "kernel", kernel);
    add(out, "lab", LAB_VERSION);
    add(out, "libc", gnu_get_libc_version());
    add(out, "machine", name.machine);
    add(out, "real", sizeof(lab_real) == sizeof(double) ? "double" : "float");
    add(out, "simd", kern_isa());
    add(out, "task_sha256", config->task_file->sha256);
    str_add(out, "}");
}
