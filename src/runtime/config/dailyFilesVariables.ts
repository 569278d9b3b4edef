import { holdsLogin } from "./providerAddress.ts";
import { folder, text } from "./variableSchemas.ts";
import type { ValuesOf, Variable } from "./variableSchemas.ts";

/** Where the poller writes a file for each day. */
export type DailyFiles = NonNullable<ReturnType<typeof makeDailyFiles>>;

/** A scheme; a single letter is a drive of Windows. */
const ADDRESS = /^[a-z][a-z0-9+.-]+:/i;

const place = folder.refine(
  (value) => !ADDRESS.test(value) || isBucket(value),
  "must be a folder, or the https:// address of a bucket without a user, a query or a fragment",
);

export const DAILY_FILES_VARIABLES = {
  DAILY_FILES: {
    schema: place,
    unset: "no daily files",
    meaning:
      "where the poller writes a Parquet file per source and certified day: a folder, or the address of an S3-compatible bucket such as https://s3.eu-central-1.amazonaws.com/BUCKET/PREFIX; none: no files",
  },
  DAILY_FILES_REGION: { schema: text, default: "us-east-1", meaning: "region of that bucket" },
  DAILY_FILES_ACCESS_KEY_ID: {
    schema: text,
    secret: true,
    meaning: "id of an access key that may put objects into that bucket",
  },
  DAILY_FILES_SECRET_ACCESS_KEY: { schema: text, secret: true, meaning: "secret of that access key" },
} as const satisfies Record<string, Variable>;

type DailyFilesValues = ValuesOf<typeof DAILY_FILES_VARIABLES>;

export function makeDailyFiles(values: DailyFilesValues) {
  const { DAILY_FILES: to, DAILY_FILES_ACCESS_KEY_ID: accessKeyId } = values;
  const { DAILY_FILES_SECRET_ACCESS_KEY: secretAccessKey, DAILY_FILES_REGION: region } = values;
  if (to === null) return null;
  const isSigned = isBucket(to) && accessKeyId !== null && secretAccessKey !== null;
  return {
    /** A folder, or the address of a bucket, with a prefix or without. */
    place: to,
    /** How requests to the bucket are signed; null for a folder. */
    bucket: isSigned ? { region, accessKeyId, secretAccessKey } : null,
  };
}

export function listDailyFilesProblems(values: DailyFilesValues): string[] {
  const { DAILY_FILES: to } = values;
  const keys = ["DAILY_FILES_ACCESS_KEY_ID", "DAILY_FILES_SECRET_ACCESS_KEY"] as const;
  if (to !== null && isBucket(to)) {
    return keys
      .filter((name) => values[name] === null)
      .map((name) => `DAILY_FILES is a bucket, but ${name} is not set.`);
  }
  return keys
    .filter((name) => values[name] !== null)
    .map((name) => `${name} is set, but DAILY_FILES is not the address of a bucket.`);
}

function isBucket(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  return ["http:", "https:"].includes(url.protocol) && !holdsLogin(url) && url.search + url.hash === "";
}
