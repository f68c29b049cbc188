/* env -- provenance: which build, machine and plugins made a result.
 *
 * Never part of a run's identity: it tells why two equal runs might differ.
 */
#ifndef LAB_EXP_ENV_H
#define LAB_EXP_ENV_H
#include "base/str.h"
#include "exp/config.h"

#define LAB_VERSION "0.1"

/* Appends one JSON object with sorted keys; equal circumstances give equal bytes. */
void env_json(struct str *out, const struct run_config *);
#endif
