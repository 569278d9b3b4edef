import { metricsToken, oneOf, password, tokens, webAddresses } from "./variableSchemas.ts";
import type { Variable } from "./variableSchemas.ts";

const MADE = "created at the first start, kept in DATA_DIR";

/** Variables for access to the web process: who may reach it, and under which host names. */
export const ACCESS_VARIABLES = {
  API_TOKENS: {
    schema: tokens,
    secret: true,
    unset: MADE,
    meaning:
      "tokens of the read API, comma separated: TOKEN or TOKEN@SOURCE, with write access TOKEN@SOURCE+write; none: one per source is created at the first start and kept in DATA_DIR",
  },
  OPS_PASSWORD: {
    schema: password,
    secret: true,
    unset: MADE,
    meaning:
      "operator password of the ops pages; none: one is created at the first start and kept in DATA_DIR",
  },
  OPS_VIEWER_PASSWORD: {
    schema: password,
    secret: true,
    unset: "created with OPS_PASSWORD, else no viewers",
    meaning:
      "viewer password of the ops pages: may look but not act; none: created together with OPS_PASSWORD, else no viewers",
  },
  METRICS_TOKEN: {
    schema: metricsToken,
    secret: true,
    unset: "created with API_TOKENS or OPS_PASSWORD, else metrics are closed",
    meaning:
      "bearer token of /metrics; none: created together with API_TOKENS or OPS_PASSWORD, else metrics are closed",
  },
  LOCAL_TRUST: {
    schema: oneOf(["true", "false"]).transform((value) => value === "true"),
    unset: "false; true for demo",
    meaning:
      "if no token or password is set, requests from this machine need none; for a developer's machine, never behind a proxy; none: false, but true for `demo`",
  },
  PUBLIC_URL: {
    schema: webAddresses,
    unset: "HOST and the names of this machine",
    meaning:
      "public addresses of the web process, comma separated, such as https://mirror.example.com; requests for other hosts are refused; a path is a prefix that a proxy removes, for webhooks only",
  },
} as const satisfies Record<string, Variable>;
