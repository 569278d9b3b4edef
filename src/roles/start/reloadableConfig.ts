import type { Config } from "../../runtime/config/config.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { refuseOthers, toSourceRow } from "./recordSources.ts";

/** The part of the configuration that a process need not be restarted for. */
export type Reloaded = Pick<Config, "sources" | "outgoingWebhooks">;

type Listener = (config: Reloaded) => Promise<void> | void;

/** The configured sources and endpoints of a process that follows their changes. */
export interface ReloadableConfig {
  /** `listener` gets the whole part after each change, one change after another. */
  follow(listener: Listener): void;
  /** Hands the changed part to all listeners; logs what fails. Throws ConfigurationError if a source would be another's. */
  reload(changed: Reloaded): Promise<void>;
}

export function makeReloadableConfig(deps: {
  readonly config: Reloaded;
  readonly logger: Logger;
}): ReloadableConfig {
  const { logger } = deps;
  const listeners: Listener[] = [];
  let current = deps.config;
  let last: Promise<void> = Promise.resolve();

  async function apply(before: Reloaded, changed: Reloaded): Promise<void> {
    try {
      for (const listener of listeners) await listener(changed);
    } catch (error) {
      logger.error(
        { err: error },
        "the configuration was read again, but not applied in full; repeat SIGHUP",
      );
      return;
    }
    logger.info(describeChange(nameSources(before), nameSources(changed)), "read the sources again");
    logger.info(describeChange(nameEndpoints(before), nameEndpoints(changed)), "read the endpoints again");
  }

  return {
    follow: (listener) => void listeners.push(listener),
    reload(changed) {
      refuseOthers(changed.sources, current.sources.map(toSourceRow));
      const before = current;
      current = changed;
      last = last.then(() => apply(before, changed));
      return last;
    },
  };
}

/** Keeps one service for each element of a list that changes: those of unchanged elements notice nothing. */
export function keepRunning<Element>(start: (element: Element) => { readonly close: () => Promise<void> }) {
  const running = new Map<string, ReturnType<typeof start>>();
  async function end(names: readonly string[]): Promise<void> {
    const ended = names.flatMap((name) => running.get(name) ?? []);
    for (const name of names) running.delete(name);
    await Promise.all(ended.map((service) => service.close()));
  }
  return {
    /** Ends the services of elements that are gone or different, then starts those that are missing. */
    async use(elements: readonly Element[]): Promise<void> {
      const wanted = new Map(elements.map((element) => [JSON.stringify(element), element]));
      await end([...running.keys()].filter((name) => !wanted.has(name)));
      for (const [name, element] of wanted) if (!running.has(name)) running.set(name, start(element));
    },
    close: () => end([...running.keys()]),
  };
}

/** True when nothing is different. */
function isSame<Configured>(left: Configured, right: Configured): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

const nameSources = ({ sources }: Reloaded) =>
  new Map<string, unknown>(sources.map((source) => [source.sourceId, source]));
const nameEndpoints = ({ outgoingWebhooks }: Reloaded) =>
  new Map<string, unknown>(outgoingWebhooks.map((endpoint) => [endpoint.endpointId, endpoint]));

function describeChange(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>) {
  return {
    added: [...after.keys()].filter((name) => !before.has(name)),
    changed: [...after.keys()].filter(
      (name) => before.has(name) && !isSame(before.get(name), after.get(name)),
    ),
    removed: [...before.keys()].filter((name) => !after.has(name)),
  };
}
