import { z } from "zod";
import { ConfigurationError } from "../domain/errors.ts";
import { makeConfigOf } from "../runtime/config/config.ts";
import type { Config } from "../runtime/config/config.ts";
import type { VariableName } from "../runtime/config/variables.ts";
import { describeSchemaIssue } from "../domain/schemaIssue.ts";
import { checkScheme } from "../signature/verifier.ts";
import type { MirrorLogger, MirrorOptions } from "./createMirror.ts";

const text = z.string().optional();
const texts = z.array(z.string()).optional();
const number = z.number().optional();

/** The variable that says the same as an option, and what must look like its text; and the option's kind. */
const VARIABLES = {
  databaseUrl: ["DATABASE_URL", z.string()],
  databaseDirectUrl: ["DATABASE_DIRECT_URL", text],
  redisUrls: ["REDIS_URL", texts],
  apiTokens: ["API_TOKENS", texts],
  opsPassword: ["OPS_PASSWORD", text],
  opsViewerPassword: ["OPS_VIEWER_PASSWORD", text],
  metricsToken: ["METRICS_TOKEN", text],
  publicUrls: ["PUBLIC_URL", texts],
  pollIntervalSeconds: ["POLL_INTERVAL_SECONDS", number],
  pollMarginSeconds: ["POLL_MARGIN_SECONDS", number],
  pollPace: ["POLL_PACE", text],
  rateSharePercent: ["RATE_SHARE_PERCENT", number],
  backfillSince: ["BACKFILL_SINCE", text],
  writeThrough: ["WRITE_THROUGH", z.boolean().optional()],
  eventsKeptFor: ["EVENTS_KEPT_FOR", text],
  historyKeptFor: ["HISTORY_KEPT_FOR", text],
  changesKeptFor: ["CHANGES_KEPT_FOR", text],
} as const satisfies Partial<Record<keyof MirrorOptions, readonly [VariableName, z.ZodType]>>;

const LOGGER_FUNCTIONS = ["debug", "info", "warn", "error"] as const;

const optionsSchema = z.strictObject({
  ...Object.fromEntries(Object.entries(VARIABLES).map(([option, [, kind]]) => [option, kind])),
  sources: z.array(z.looseObject({})).min(1),
  outgoingWebhooks: z.array(z.looseObject({})).default([]),
  alertWebhook: z.strictObject({ url: z.string(), secret: z.string() }).optional(),
  logger: z
    .custom<MirrorLogger>(
      (value) => LOGGER_FUNCTIONS.every((name) => typeof (value as MirrorLogger)?.[name] === "function"),
      "must have the functions debug, info, warn and error, as a pino logger has",
    )
    .optional(),
});

const OPTION_OF = new Map<string, string>([
  ...Object.entries(VARIABLES).map(([option, [variable]]) => [variable, option] as const),
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
  const { alertWebhook, sources, outgoingWebhooks, ...others } = result.data;
  const found: Partial<Record<VariableName, string>> = {
    ...(alertWebhook && { ALERT_WEBHOOK_URL: alertWebhook.url, ALERT_WEBHOOK_SECRET: alertWebhook.secret }),
  };
  for (const [option, [variable]] of Object.entries(VARIABLES)) {
    const value = (others as Partial<MirrorOptions>)[option as keyof typeof VARIABLES];
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
