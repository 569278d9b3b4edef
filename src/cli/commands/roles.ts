import type { Command } from "commander";
import { startAll } from "../../bin/all.ts";
import { startKeeper } from "../../bin/keeper.ts";
import { startPoller } from "../../bin/poller.ts";
import { openQueues } from "../../bin/queues.ts";
import { startWeb } from "../../bin/web.ts";
import { startWorker } from "../../bin/worker.ts";
import type { RoleDeps } from "../../bin/role.ts";
import { startSideServer } from "../../bin/sideServer.ts";
import { requireSources } from "../../runtime/config.ts";
import { readConfig, runService } from "../session.ts";

/** `up`, `web`, `worker`, `poller`: the parts of the product, as one process or several. */
export function addRoleCommands(program: Command): void {
  program
    .command("up")
    .description("run everything in one process: webhooks, worker, poller, read API, ops")
    .action(() => runRole("up", true, async (deps) => void (await startAll(deps))));
  program
    .command("web")
    .description("run the web process: webhooks, read API, ops pages")
    .action(() =>
      runRole("web", false, async (deps) => {
        await startWeb({ ...deps, ...(await openQueues(deps)) });
        startKeeper(deps);
      }),
    );
  program
    .command("worker")
    .description("run a worker: applies events to the mirror")
    .action(() =>
      runRole("worker", false, async (deps) => {
        await startWorker({ ...deps, ...(await openQueues(deps)) });
        startKeeper(deps);
        await startSideServer(deps);
      }),
    );
  program
    .command("poller")
    .description("run a poller: reads what events lost; of several, one leads")
    .action(() =>
      runRole("poller", false, async (deps) => {
        await startPoller(deps);
        startKeeper(deps);
        await startSideServer(deps);
      }),
    );
}

function runRole(
  service: string,
  migrates: boolean,
  start: (deps: RoleDeps) => Promise<void>,
): Promise<void> {
  const config = readConfig();
  requireSources(config);
  return runService({ service, config, migrates, start });
}
