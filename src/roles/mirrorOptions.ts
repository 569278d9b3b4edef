import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { makeConfigOf } from "../runtime/config/config.ts";
import type { Config } from "../runtime/config/config.ts";
import type { VariableName } from "../runtime/config/variables.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { checkScheme } from "../signature/verifier.ts";
import type { MirrorLogger, MirrorOptions } from "./createMirror.ts";

type OptionName = keyof MirrorOptions;

const text = z.string().optional();
const texts = z.array(z.string()).optional();
const number = z.number().optional();
const isFunction = (value: unknown) => typeof value === "function";

/** The kinds of the options; what their texts must look like is in the variables of the same names. */
const optionsSchema = z.strictObject({
  databaseUrl: z.string(),
  databaseDirectUrl: text,
  databaseReadUrl: text,
  redisUrls: texts,
  sources: z.array(z.looseObject({})).min(1),
  apiTokens: texts,
  opsPassword: text,
  opsViewerPassword: text,
  metricsToken: text,
  publicUrls: texts,
  pollIntervalSeconds: number,
  pollMarginSeconds: number,
  pollPace: text,
  rateSharePercent: number,
  backfillSince: text,
  writeThrough: z.boolean().optional(),
  writeThroughPaths: texts,
  eventsKeptFor: text,
  historyKeptFor: text,
  changesKeptFor: text,
  alertWebhook: z.strictObject({ url: z.string(), secret: z.string() }).optional(),
  outgoingWebhooks: z.array(z.looseObject({})).optional(),
  logger: z
    .custom<MirrorLogger>(
      (value) =>
        ["debug", "info", "warn", "error"].every((name) =>
          isFunction((value as MirrorLogger)?.[name as "info"]),
        ),
      "must have the functions debug, info, warn and error, as a pino logger has",
    )
    .optional(),
} satisfies Record<OptionName, z.ZodType>);

/** The variable that says the same as an option. */
const VARIABLE_OF = {
  databaseUrl: "DATABASE_URL",
  databaseDirectUrl: "DATABASE_DIRECT_URL",
  databaseReadUrl: "DATABASE_READ_URL",
  redisUrls: "REDIS_URL",
  apiTokens: "API_TOKENS",
  opsPassword: "OPS_PASSWORD",
  opsViewerPassword: "OPS_VIEWER_PASSWORD",
  metricsToken: "METRICS_TOKEN",
  publicUrls: "PUBLIC_URL",
  pollIntervalSeconds: "POLL_INTERVAL_SECONDS",
  pollMarginSeconds: "POLL_MARGIN_SECONDS",
  pollPace: "POLL_PACE",
  rateSharePercent: "RATE_SHARE_PERCENT",
  backfillSince: "BACKFILL_SINCE",
  writeThrough: "WRITE_THROUGH",
  writeThroughPaths: "WRITE_THROUGH_PATHS",
  eventsKeptFor: "EVENTS_KEPT_FOR",
  historyKeptFor: "HISTORY_KEPT_FOR",
  changesKeptFor: "CHANGES_KEPT_FOR",
} as const satisfies Partial<Record<OptionName, VariableName>>;

const OPTION_OF = new Map<string, string>([
  ...Object.entries(VARIABLE_OF).map(([option, variable]) => [variable, option] as const),
  ["ALERT_WEBHOOK_URL", "alertWebhook.url"],
  ["ALERT_WEBHOOK_SECRET", "alertWebhook.secret"],
]);

/**
 * The configuration that the options ask for, with the defaults of the variables; nothing is read from the environment.
 * Throws ConfigurationError, a line per wrong option, without secrets.
 */
export function readOptions(options: MirrorOptions): Config {
  const result = optionsSchema.safeParse(options, { error: describeSchemaIssue });
  if (!result.success) {
    const problems = result.error.issues.map(
      ({ path, message }) => `${path.join(".") || "An option"}: ${message}.`,
    );
    throw new ConfigurationError(problems.join("\n"));
  }
  const { alertWebhook, sources, outgoingWebhooks = [] } = result.data;
  const found: Partial<Record<VariableName, string>> = {
    ...(alertWebhook && { ALERT_WEBHOOK_URL: alertWebhook.url, ALERT_WEBHOOK_SECRET: alertWebhook.secret }),
  };
  for (const [option, variable] of Object.entries(VARIABLE_OF)) {
    const value = result.data[option as keyof typeof VARIABLE_OF];
    if (value !== undefined && !(Array.isArray(value) && value.length === 0)) found[variable] = String(value);
  }
  const lists = {
    sources: sources.map((source) => ({ organization: "default", ...source })),
    outgoingWebhooks,
  };
  try {
    return makeConfigOf(found, lists, checkScheme);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(
      error.message.replaceAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (name) => OPTION_OF.get(name) ?? name),
      { cause: error.cause },
    );
  }
}
