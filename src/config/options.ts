import { inspect } from "node:util";
import { describeUnknownName } from "../domain/unknownName.ts";
import { makeConfig, type Config } from "./config.ts";
import { OPTION_NAMES, type SettingOptions } from "./settings.ts";

/*
 * The border of a mirror in another program: its options are values of the settings, and nothing is read from the
 * environment.
 */

/** A source: one organization in one mode at the provider. */
export interface MirrorSource {
  /** Its name in addresses, tokens and tables: 1 to 63 of a-z, 0-9, _ and -. */
  readonly sourceId: string;
  readonly mode: "live" | "test";
  /** The provider's base address, without `/v1`. */
  readonly baseUrl: string;
  /** The provider's key of this mode. None: this process cannot read the source, or forward writes to it. */
  readonly apiKey?: string | undefined;
  /** Secrets of its webhook endpoint, all valid. None: it is polled only. */
  readonly webhookSecrets?: readonly string[] | undefined;
  /** The scheme by which the provider signs: a preset's name, or a scheme. Default: `standard-webhooks`. */
  readonly webhookScheme?: string | Readonly<Record<string, unknown>> | undefined;
  /** Sources with the same organization and mode share the provider's rate limits. Default: `default`. */
  readonly organization?: string | undefined;
}

/** An endpoint of your own, which is notified of changes. */
export interface MirrorEndpoint {
  /** Its name on the ops pages: 1 to 63 of a-z, 0-9, _ and -. */
  readonly name: string;
  /** https, or http on this machine. */
  readonly url: string;
  /** Signs each message: `whsec_…`, at least 16 bytes; comma separated while it rotates. */
  readonly secret: string;
  /** The sources whose changes it gets. */
  readonly sources: readonly string[];
  /** Only these kinds of messages. Default: all. */
  readonly events?: readonly string[] | undefined;
  /** Only changes to one of these statuses. Default: all. */
  readonly statuses?: readonly string[] | undefined;
  /** The content of messages about an order: without people and addresses (`redacted`, the default), or `all`. */
  readonly fields?: "redacted" | "all" | undefined;
  /** Whether a change waits until earlier ones of the same order are delivered or given up. Default: false. */
  readonly ordered?: boolean | undefined;
  /** The maximum number of attempts per second. Default: any. */
  readonly rate?: number | null | undefined;
}

/** A logger that takes log lines, as a pino logger does. */
export type MirrorLogger = Readonly<
  Record<"debug" | "info" | "warn" | "error", (fields: Record<string, unknown>, sentence: string) => void>
>;

/** The options of `createMirror`. Each setting is also a variable of the commands; see `.env.example`. */
export interface MirrorOptions extends SettingOptions {
  /** Postgres that holds the mirror: `postgres://user:password@host:5432/database`. */
  readonly databaseUrl: string;
  /** The sources that are mirrored, at least one. */
  readonly sources: readonly MirrorSource[];
  /** Your own endpoints that are notified of changes. */
  readonly outgoingWebhooks?: readonly MirrorEndpoint[] | undefined;
  /** Takes the log, without secrets and personal data. Default: silent. */
  readonly logger?: MirrorLogger | undefined;
}

const LOGGER_FUNCTIONS = ["debug", "info", "warn", "error"] as const;

/**
 * The configuration that the options ask for, with the defaults of the settings. Throws ConfigurationError, a line per
 * wrong option, without secrets.
 */
export function readOptions(options: MirrorOptions): Config {
  const { sources, outgoingWebhooks = [], logger } = options;
  const known = [...OPTION_NAMES, "sources", "outgoingWebhooks", "logger"];
  const problems = Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => describeUnknownName("option", name, known));
  if (options.databaseUrl === undefined) problems.push("databaseUrl is missing.");
  if (Array.isArray(sources) && sources.length === 0) problems.push("sources is empty.");
  if (logger !== undefined && !LOGGER_FUNCTIONS.every((name) => typeof logger?.[name] === "function"))
    problems.push("logger must have the functions debug, info, warn and error, as a pino logger has.");
  const given = OPTION_NAMES.flatMap((name) => {
    const value: unknown = options[name];
    // Not as JSON: what is given by mistake may refer to itself, as a client of Redis does.
    const text = typeof value === "string" ? value : inspect(value, { depth: 0 });
    return value === undefined ? [] : [[name, { value, text }] as const];
  });
  return makeConfig(
    {
      settings: new Map(given),
      sources: { name: "sources", elements: sources },
      endpoints: { name: "outgoingWebhooks", elements: outgoingWebhooks },
      nameOf: (setting) => setting,
    },
    problems,
  );
}
