import { makeLogger, type Logger } from "../../../src/process/telemetry/logger.ts";

/** A logger that hands each line, in JSON, to the test. */
export function logInto(
  write: (line: string) => unknown,
  level: Parameters<typeof makeLogger>[0]["level"] = "warn",
): Logger {
  return makeLogger({ level, format: "json", service: "test", destination: { write } });
}
