import type { SourceConfig } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { refuseOthers, toSourceRow } from "./recordSources.ts";

type Listener = (sources: readonly SourceConfig[]) => Promise<void> | void;

/** The configured sources of a process that need not be restarted when one is added, changed or removed. */
export interface ReloadableSources {
  /** `listener` gets all sources after each change, one change after another. */
  follow(listener: Listener): void;
  /** Reads the configuration again. If it is invalid, logs the problems and changes nothing. */
  reload(): Promise<void>;
}

export function makeReloadableSources(deps: {
  readonly sources: readonly SourceConfig[];
  /** Throws ConfigurationError. */
  readonly readSources: () => readonly SourceConfig[];
  readonly logger: Logger;
}): ReloadableSources {
  const { readSources, logger } = deps;
  const listeners: Listener[] = [];
  let current = deps.sources;
  let last: Promise<void> = Promise.resolve();

  async function reloadNow(): Promise<void> {
    try {
      const sources = readSources();
      const known = current.map(toSourceRow);
      refuseOthers(sources, known);
      const before = current;
      current = sources;
      for (const listener of listeners) await listener(sources);
      logger.info(describeChange(before, sources), "read the sources again");
    } catch (error) {
      logger.error({ err: error }, "the sources could not be read again");
    }
  }

  return {
    follow: (listener) => void listeners.push(listener),
    reload() {
      last = last.then(reloadNow);
      return last;
    },
  };
}

/** True when nothing about a source is different. */
export function isSameSource(left: SourceConfig, right: SourceConfig): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

function describeChange(before: readonly SourceConfig[], after: readonly SourceConfig[]) {
  const find = (sources: readonly SourceConfig[], id: string) =>
    sources.find(({ sourceId }) => sourceId === id);
  const names = (sources: readonly SourceConfig[]) => sources.map(({ sourceId }) => sourceId);
  return {
    added: names(after.filter(({ sourceId }) => find(before, sourceId) === undefined)),
    changed: names(
      after.filter((source) => {
        const known = find(before, source.sourceId);
        return known !== undefined && !isSameSource(known, source);
      }),
    ),
    removed: names(before.filter(({ sourceId }) => find(after, sourceId) === undefined)),
  };
}
