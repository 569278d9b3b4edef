import { metricsToken, oneOf, password, tokens, webAddresses } from "./variableSchemas.ts";
import type { Variable } from "./variableSchemas.ts";

const MADE = "made at the first start, kept in DATA_DIR";

/** Variables that say who may reach the web process, and by which names. */
export const ACCESS_VARIABLES = {
  API_TOKENS: {
    schema: tokens,
    default: null,
    secret: true,
    unset: MADE,
    meaning:
      "tokens of the read API, comma separated, TOKEN or TOKEN@SOURCE, with the right to write TOKEN@SOURCE+write; none: one per source is made at the first start and kept in DATA_DIR",
  },
  OPS_PASSWORD: {
    schema: password,
    default: null,
    secret: true,
    unset: MADE,
    meaning: "password of the ops pages; none: one is made at the first start and kept in DATA_DIR",
  },
  OPS_VIEWER_PASSWORD: {
    schema: password,
    default: null,
    secret: true,
    unset: "made with OPS_PASSWORD, else no viewers",
    meaning:
      "password of the ops pages for those who may look but not act; none: made together with OPS_PASSWORD, else no viewers",
  },
  METRICS_TOKEN: {
    schema: metricsToken,
    default: null,
    secret: true,
    unset: "made with API_TOKENS or OPS_PASSWORD, else nobody reads the metrics",
    meaning:
      "bearer token of /metrics; none: made together with API_TOKENS or OPS_PASSWORD, else nobody is answered",
  },
  LOCAL_TRUST: {
    schema: oneOf(["true", "false"]).transform((value) => value === "true"),
    default: null,
    unset: "false; true for demo",
    meaning:
      "where no token or password is set, requests from this machine need none; for a developer's machine, never behind a proxy; none: false, but true for `demo`",
  },
  PUBLIC_URL: {
    schema: webAddresses,
    default: null,
    unset: "HOST and the names of this machine",
    meaning:
      "addresses that people and programs have for the web process, comma separated, as https://mirror.example.com; requests for other names are refused",
  },
} as const satisfies Record<string, Variable>;
